#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

// Named axes with sizes, major to minor, and optionally an order of devices. It is
// abstract, and needs no device.
//
//   <["data"=2, "model"=4]>                          eight devices, numbered row-major
//   <["a"=3, "b"=2], device_ids=[0, 2, 4, 1, 3, 5]>  an explicit order
//   <[], device_ids=[3]>                             maximal: everything on device 3
//   <[]>                                             empty: a placeholder
//
// A *position* is an index into the row-major grid of axes; the *device* at a position is
// device_ids[position], or the position itself if no order is given.
struct Mesh {
  std::vector<MeshAxis> axes;
  std::vector<int64_t> device_ids;
  std::string name;  // the symbol of an sdy.mesh op, without '@'; empty: written inline

  Mesh() = default;
  Mesh(std::initializer_list<MeshAxis> axes) : axes(axes) {}
  Mesh(std::vector<MeshAxis> axes, std::vector<int64_t> device_ids, std::string name = {})
      : axes(std::move(axes)), device_ids(std::move(device_ids)), name(std::move(name)) {}

  int64_t num_devices() const;  // 1 for maximal and empty meshes
  bool is_empty() const { return axes.empty() && device_ids.empty(); }
  bool is_maximal() const { return axes.empty() && device_ids.size() == 1; }
  std::optional<int> find_axis(std::string_view name) const;
  int axis_index(std::string_view name) const;  // throws UserError that lists the axes

  int64_t device_at(int64_t position) const;
  int64_t position_of(int64_t device) const;                 // the inverse
  std::vector<int64_t> coordinates(int64_t position) const;  // one per axis

  // Same axes and device order, whatever the names.
  bool same_devices(const Mesh& other) const {
    return axes == other.axes && device_ids == other.device_ids;
  }
  bool operator==(const Mesh&) const = default;
};

using MeshPtr = std::shared_ptr<const Mesh>;

// Throws UserError if an invariant does not hold: sizes are >= 1, names distinct and not empty, and
// device_ids a permutation (a single non-negative id if there are no axes).
// An order that is the identity is dropped.
void normalize_and_verify(Mesh& mesh);

// The body of a mesh attribute:  <["x"=2, "y"=4], device_ids=[...]>
std::string to_string(const Mesh& mesh);
// Either the text above or the short way of the command line:  x=2,y=4
Mesh parse_mesh(std::string_view text);

}  // namespace cleave
