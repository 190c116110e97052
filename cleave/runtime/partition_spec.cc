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

// In mesh order, as Shardy wants them.
AxisList sorted_axes(const std::vector<std::string>& names, const Mesh& mesh) {
  AxisList axes;
  for (const std::string& name : names) axes.push_back(axis_ref(name, mesh));
  std::sort(axes.begin(), axes.end());
  merge_neighbours(axes);
  return axes;
}

// x:(1)2 is written "x":(1)2.
std::string quoted_axis(const std::string& axis) {
  const size_t colon = axis.find(":(");
  if (colon == std::string::npos) return fmt::format("\"{}\"", axis);
  return fmt::format("\"{}\"{}", axis.substr(0, colon), axis.substr(colon));
}

std::string axes_text(const std::vector<std::string>& axes) {
  std::string text;
  for (const std::string& axis : axes) text += (text.empty() ? "" : ", ") + quoted_axis(axis);
  return text;
}

std::string read_axis(TextCursor& cursor) {
  std::string axis = cursor.quoted();
  if (!cursor.accept(":")) return axis;
  cursor.expect("(");
  const int64_t pre = cursor.integer();
  cursor.expect(")");
  return fmt::format("{}:({}){}", axis, pre, cursor.integer());
}

SpecEntry read_entry(TextCursor& cursor) {
  SpecEntry entry;
  cursor.expect("{");
  while (!cursor.accept("}")) {
    if (cursor.accept("?")) {
      entry.is_open = true;
      cursor.expect("}");
      break;
    }
    entry.axes.push_back(read_axis(cursor));
    if (!cursor.accept(",") && cursor.peek() != '}') cursor.fail("expected ',' or '}'");
  }
  if (cursor.peek() != 'p') return entry;
  const size_t begin = cursor.pos();
  const std::string_view word = cursor.identifier();
  TextCursor digits(word.substr(1));
  if (!digits.at_integer()) throw ParseError(begin, "expected a priority such as p1");
  entry.importance = digits.integer();
  return entry;
}

std::vector<std::string> read_axes(TextCursor& cursor) {
  const SpecEntry entry = read_entry(cursor);
  if (entry.is_open || entry.importance) cursor.fail("expected names of axes");
  return entry.axes;
}

void read_suffix(TextCursor& cursor, PartitionSpec& spec) {
  if (spec.whole.empty() && cursor.accept("replicated")) {
    cursor.expect("=");
    spec.whole = read_axes(cursor);
  } else if (spec.partial.empty() && cursor.accept("unreduced")) {
    cursor.expect("=");
    if (cursor.peek() != '{') {
      const std::string_view word = cursor.identifier();
      const auto op = reduce_op_from_name(word);
      if (!op) cursor.fail(fmt::format("unknown reduction '{}'", word));
      spec.partial_op = *op;
    }
    spec.partial = read_axes(cursor);
  } else {
    cursor.fail("expected 'replicated' or 'unreduced', once each");
  }
}

// A spec on a mesh for shards of some rank: sizes are not known yet.
ShardingSpec of_rank(const PartitionSpec& spec, const Mesh& mesh, size_t rank) {
  return to_sharding(spec, shared_mesh(mesh), Shape(rank, 1));
}

}  // namespace

std::string to_string(const PartitionSpec& spec) {
  std::string text = "[";
  for (const SpecEntry& entry : spec.entries) {
    if (text.size() > 1) text += ", ";
    text += "{" + axes_text(entry.axes);
    if (entry.is_open) text += entry.axes.empty() ? "?" : ", ?";
    text += "}";
    if (entry.importance) text += fmt::format("p{}", *entry.importance);
  }
  text += "]";
  if (!spec.whole.empty()) text += ", replicated={" + axes_text(spec.whole) + "}";
  if (spec.partial.empty()) return text;
  text += ", unreduced=";
  if (spec.partial_op != ReduceOp::Sum) text += name(spec.partial_op);
  return text + "{" + axes_text(spec.partial) + "}";
}

PartitionSpec parse_partition_spec(std::string_view text) {
  TextCursor cursor(text);
  PartitionSpec spec;
  try {
    cursor.expect("[");
    if (!cursor.accept("]")) {
      do spec.entries.push_back(read_entry(cursor));
      while (cursor.accept(","));
      cursor.expect("]");
    }
    while (cursor.accept(",")) read_suffix(cursor, spec);
    if (!cursor.at_end()) cursor.fail("unexpected text after the spec");
  } catch (const ParseError& error) {
    throw_user("spec '{}': {} at character {}; write it as [{{\"x\"}}, {{}}]", text, error.what(),
               error.offset + 1);
  }
  return spec;
}

ShardingSpec to_sharding(const PartitionSpec& spec, const MeshPtr& mesh, const Shape& shape) {
  if (!mesh) throw_user("a spec for tensor<{}> is given without a mesh", to_string(shape));
  if (spec.entries.size() > shape.size())
    throw_user("a spec of {} dimensions for a tensor<{}> of {}; give at most one entry each",
               spec.entries.size(), to_string(shape), shape.size());
  ShardingSpec result = ShardingSpec::closed_replicated(mesh, shape.size());
  for (size_t d = 0; d < spec.entries.size(); ++d) {
    const SpecEntry& entry = spec.entries[d];
    DimSpec& dim = result.dims[d];
    for (const std::string& axis : entry.axes) append_axis(dim.axes, axis_ref(axis, *mesh));
    dim.open = entry.is_open;
    dim.priority = entry.importance;
    if (dim.priority && dim.axes.empty() && !dim.open)
      throw_user(
          "spec {}: dimension {} has a priority and neither axes nor a wish for more; write "
          "priority(\"x\", {}), or priority(open(), {})",
          to_string(spec), d, *dim.priority, *dim.priority);
  }
  result.partial = sorted_axes(spec.partial, *mesh);
  result.partial_op = spec.partial_op;
  result.replicated = sorted_axes(spec.whole, *mesh);
  // Of a dimension without elements there is nothing to cut.
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 0) result.dims[d] = {};
  verify(result, shape);
  return result;
}

Shape compute_global_shape(std::span<const Shape> locals, const Mesh& mesh,
                           const PartitionSpec& spec) {
  const size_t rank = locals.empty() ? spec.entries.size() : locals.front().size();
  return compute_global_shape(locals, of_rank(spec, mesh, rank));
}

Shape compute_global_shape(const Shape& local, const Mesh& mesh, const PartitionSpec& spec) {
  return compute_global_shape(local, of_rank(spec, mesh, local.size()));
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
