#include "cleave/runtime/partition_spec.h"

#include <algorithm>
#include <mutex>

#include "cleave/core/error.h"
#include "cleave/core/text_cursor.h"

namespace cleave {
namespace {

// x, "x", x:(1)2
AxisRef axis_ref(const std::string& text, const Mesh& mesh) {
  if (text.empty())
    throw_user(
        "a spec names an axis \"\"; the axes are of {}; write {{}} for a dimension that is not "
        "sharded",
        to_string(mesh));
  const size_t colon = text.find(":(");
  if (colon == std::string::npos) return whole_axis(mesh, text);
  const std::string quoted = fmt::format("\"{}\"{}", text.substr(0, colon), text.substr(colon));
  TextCursor cursor(quoted);
  try {
    const AxisRef ref = parse_axis_ref(cursor, mesh);
    verify(ref, mesh);
    return ref;
  } catch (const UserError& error) {
    throw_user("axis '{}': {}; write a part of an axis as x:(1)2", text, error.what());
  }
}

}  // namespace

ShardingSpec to_sharding(const PartitionSpec& spec, const MeshPtr& mesh, const Shape& shape) {
  if (!mesh) throw_user("a spec for tensor<{}> is given without a mesh", to_string(shape));
  if (spec.entries.size() > shape.size())
    throw_user("a spec of {} dimensions for a tensor<{}> of {}; give at most one entry each",
               spec.entries.size(), to_string(shape), shape.size());
  ShardingSpec result = ShardingSpec::closed_replicated(mesh, shape.size());
  for (size_t d = 0; d < spec.entries.size(); ++d)
    for (const std::string& axis : spec.entries[d].axes)
      append_axis(result.dims[d].axes, axis_ref(axis, *mesh));
  for (const std::string& axis : spec.partial) result.partial.push_back(axis_ref(axis, *mesh));
  std::sort(result.partial.begin(), result.partial.end());
  merge_neighbours(result.partial);
  result.partial_op = spec.partial_op;
  // Of a dimension without elements there is nothing to cut.
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 0) result.dims[d].axes.clear();
  verify(result, shape);
  return result;
}

MeshPtr shared_mesh(const Mesh& mesh) {
  static std::mutex mutex;
  static std::vector<MeshPtr> meshes;
  Mesh named = mesh;
  normalize_and_verify(named);
  if (named.name.empty()) named.name = "mesh";
  std::lock_guard lock(mutex);
  for (const MeshPtr& known : meshes)
    if (*known == named) return known;
  meshes.push_back(std::make_shared<const Mesh>(std::move(named)));
  return meshes.back();
}

}  // namespace cleave
