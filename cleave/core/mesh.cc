#include "cleave/core/mesh.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/mesh_text.h"
#include "cleave/core/text_cursor.h"

namespace cleave {

namespace {

// More than any installation has; what is kept for each device stays within memory.
constexpr int64_t kMostDevices = int64_t{1} << 20;

}  // namespace

int64_t Mesh::num_devices() const {
  int64_t count = 1;
  for (const MeshAxis& axis : axes) count *= axis.size;
  return count;
}

std::optional<int> Mesh::find_axis(std::string_view name) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name) return static_cast<int>(i);
  return std::nullopt;
}

int Mesh::axis_index(std::string_view name) const {
  if (auto index = find_axis(name)) return *index;
  throw_user("unknown axis \"{}\"; the mesh is {}", name, to_string(*this));
}

int64_t Mesh::device_at(int64_t position) const {
  return device_ids.empty() ? position : device_ids[position];
}

int64_t Mesh::position_of(int64_t device) const {
  if (device_ids.empty()) return device;
  return std::find(device_ids.begin(), device_ids.end(), device) - device_ids.begin();
}

std::vector<int64_t> Mesh::coordinates(int64_t position) const {
  std::vector<int64_t> result(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    result[i] = position % axes[i].size;
    position /= axes[i].size;
  }
  return result;
}

void normalize_and_verify(Mesh& mesh) {
  std::set<std::string_view> names;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.name.empty()) throw_user("mesh {}: an axis has no name", to_string(mesh));
    const auto unprintable = [](char c) {
      return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ';
    };
    if (std::any_of(axis.name.begin(), axis.name.end(), unprintable))
      throw_user("mesh: the name of axis {} has a quote, a backslash or a control character",
                 &axis - mesh.axes.data());
    if (axis.size < 1)
      throw_user("mesh {}: axis \"{}\" has size {}; it must be at least 1", to_string(mesh),
                 axis.name, axis.size);
    if (!names.insert(axis.name).second)
      throw_user("mesh {}: axis \"{}\" appears twice", to_string(mesh), axis.name);
  }
  int64_t count = 1;
  for (const MeshAxis& axis : mesh.axes)
    if (__builtin_mul_overflow(count, axis.size, &count) || count > kMostDevices)
      throw_user("mesh {}: more than {} devices", to_string(mesh), kMostDevices);
  for (int64_t id : mesh.device_ids)
    if (id < 0) throw_user("mesh {}: device ids must be non-negative", to_string(mesh));
  if (mesh.axes.empty()) {
    if (mesh.device_ids.size() > 1)
      throw_user("mesh {}: a mesh without axes has at most one device id", to_string(mesh));
    return;
  }
  if (mesh.device_ids.empty()) return;
  if (static_cast<int64_t>(mesh.device_ids.size()) != count)
    throw_user("mesh {}: {} device ids for {} devices", to_string(mesh), mesh.device_ids.size(),
               count);
  std::vector<int64_t> identity(mesh.device_ids.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (mesh.device_ids == identity) {
    mesh.device_ids.clear();
    return;
  }
  std::vector<int64_t> sorted = mesh.device_ids;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity)
    throw_user("mesh {}: device ids must be a permutation of 0..{}", to_string(mesh), count - 1);
}

std::string to_string(const Mesh& mesh) {
  std::string text = "<[";
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    text += fmt::format("{}\"{}\"={}", i ? ", " : "", mesh.axes[i].name, mesh.axes[i].size);
  text += "]";
  if (!mesh.device_ids.empty()) {
    text += ", device_ids=[";
    for (size_t i = 0; i < mesh.device_ids.size(); ++i)
      text += fmt::format("{}{}", i ? ", " : "", mesh.device_ids[i]);
    text += "]";
  }
  return text + ">";
}

Mesh parse_mesh_body(TextCursor& cursor) {
  Mesh mesh;
  cursor.expect("<");
  cursor.expect("[");
  if (!cursor.accept("]")) {
    do {
      MeshAxis axis;
      axis.name = cursor.quoted();
      cursor.expect("=");
      axis.size = cursor.integer();
      mesh.axes.push_back(std::move(axis));
    } while (cursor.accept(","));
    cursor.expect("]");
  }
  if (cursor.accept(",")) {
    cursor.expect("device_ids");
    cursor.expect("=");
    cursor.expect("[");
    do mesh.device_ids.push_back(cursor.integer());
    while (cursor.accept(","));
    cursor.expect("]");
  }
  cursor.expect(">");
  return mesh;
}

Mesh parse_mesh(std::string_view text) {
  TextCursor cursor(text);
  Mesh mesh;
  try {
    if (cursor.peek() == '<') {
      mesh = parse_mesh_body(cursor);
    } else if (!cursor.at_end()) {
      do {
        MeshAxis axis;
        axis.name = cursor.peek() == '"' ? cursor.quoted() : std::string(cursor.identifier());
        cursor.expect("=");
        axis.size = cursor.integer();
        mesh.axes.push_back(std::move(axis));
      } while (cursor.accept(","));
    }
    if (!cursor.at_end()) cursor.fail("unexpected text after the mesh");
  } catch (const ParseError& error) {
    throw_user("mesh '{}': {} at character {}; write it as x=2,y=4 or <[\"x\"=2, \"y\"=4]>", text,
               error.what(), error.offset + 1);
  }
  normalize_and_verify(mesh);
  return mesh;
}

}  // namespace cleave
