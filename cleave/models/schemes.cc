#include "cleave/models/schemes.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/core/error.h"

namespace cleave::models {
namespace {

enum class Role : uint8_t { None, Columns, Rows, Experts };

// What a weight is to a transformer, by the last part of its name.
Role role_of(std::string_view leaf, size_t rank) {
  const size_t dot = leaf.rfind('.');
  const std::string_view name = dot == std::string_view::npos ? leaf : leaf.substr(dot + 1);
  auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (rank == 3 && is_one_of({"gate", "up", "down"})) return Role::Experts;
  if (rank == 2 && is_one_of({"q", "k", "v", "qkv", "gate", "up"})) return Role::Columns;
  if (rank == 2 && is_one_of({"o", "out", "down", "mix"})) return Role::Rows;
  if (rank == 1 && name == "b_up") return Role::Rows;
  // The matrices of an MLP by turns.
  const size_t bracket = leaf.find("layers[");
  if (bracket != std::string_view::npos && (name == "w" || name == "b")) {
    const bool even = (leaf[leaf.find(']', bracket) - 1] - '0') % 2 == 0;
    if (name == "b") return even ? Role::Rows : Role::None;
    return even ? Role::Columns : Role::Rows;
  }
  return Role::None;
}

std::string axis_named(const Mesh& mesh, const char* name, size_t otherwise) {
  if (mesh.axes.empty()) throw_user("a sharding by name needs a mesh with axes");
  return mesh.find_axis(name) ? name : mesh.axes[otherwise].name;
}
std::string model_axis(const Mesh& mesh) { return axis_named(mesh, "model", mesh.axes.size() - 1); }

PartitionSpec megatron(const Mesh& mesh, std::string_view leaf, const Shape& shape) {
  PartitionSpec spec;
  spec.entries.resize(shape.size());
  switch (role_of(leaf, shape.size())) {
    case Role::Columns:
      spec.entries.back() = model_axis(mesh);
      break;
    case Role::Rows:
    case Role::Experts:
      spec.entries.front() = model_axis(mesh);
      break;
    case Role::None:
      break;
  }
  return spec;
}

}  // namespace

std::string data_axis(const Mesh& mesh) { return axis_named(mesh, "data", 0); }

const std::vector<std::string>& scheme_names() {
  static const std::vector<std::string> names = {"replicated", "data",  "megatron",
                                                 "fsdp",       "mixed", "experts"};
  return names;
}

Scheme scheme_from(std::string_view name) {
  const auto& names = scheme_names();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Scheme>(i);
  throw_user("no sharding is called '{}'; there are {}", name, fmt::join(names, ", "));
}

PartitionSpec weight_spec(Scheme scheme, const Mesh& mesh, std::string_view leaf,
                          const Shape& shape) {
  if (scheme == Scheme::Megatron || scheme == Scheme::Mixed) return megatron(mesh, leaf, shape);
  PartitionSpec spec;
  const std::string axis = data_axis(mesh);
  if (scheme == Scheme::Experts && role_of(leaf, shape.size()) == Role::Experts) return P(axis);
  if (scheme != Scheme::Fsdp) return spec;
  const int64_t size = mesh.axes[mesh.axis_index(axis)].size;
  spec.entries.resize(shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] % size == 0) {
      spec.entries[d] = axis;
      break;
    }
  return spec;
}

PartitionSpec input_spec(Scheme scheme, const Mesh& mesh) {
  const bool by_example = scheme != Scheme::Replicated && scheme != Scheme::Megatron;
  return by_example ? P(data_axis(mesh)) : P();
}

}  // namespace cleave::models
