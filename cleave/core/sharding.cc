#include "cleave/core/sharding.h"

#include <algorithm>
#include <array>

#include "cleave/core/error.h"
#include "cleave/core/mesh_text.h"
#include "cleave/core/text_cursor.h"

namespace cleave {
namespace {

constexpr std::array<std::string_view, 7> kReduceOpNames = {"sum", "max", "min", "prod",
                                                            "and", "or",  "avg"};

void verify_axis_list(const AxisList& axes, const Mesh& mesh, std::string_view where) {
  for (const AxisRef& ref : axes) verify(ref, mesh);
  for (size_t i = 0; i + 1 < axes.size(); ++i)
    if (can_merge(axes[i], axes[i + 1]))
      throw_user("{}: {} and {} are consecutive sub-axes of one axis; write them as {}", where,
                 to_string(axes[i], mesh), to_string(axes[i + 1], mesh),
                 to_string(merge(axes[i], axes[i + 1]), mesh));
}

std::string describe(const ShardingSpec& spec) { return "sharding " + to_string(spec); }

}  // namespace

std::string_view name(ReduceOp op) { return kReduceOpNames[static_cast<size_t>(op)]; }

std::optional<ReduceOp> reduce_op_from_name(std::string_view name) {
  for (size_t i = 0; i < kReduceOpNames.size(); ++i)
    if (kReduceOpNames[i] == name) return static_cast<ReduceOp>(i);
  return std::nullopt;
}

ShardingSpec ShardingSpec::closed_replicated(MeshPtr mesh, size_t rank) {
  ShardingSpec spec;
  spec.mesh = std::move(mesh);
  spec.dims.resize(rank);
  return spec;
}

ShardingSpec ShardingSpec::fully_open(MeshPtr mesh, size_t rank) {
  ShardingSpec spec = closed_replicated(std::move(mesh), rank);
  for (DimSpec& dim : spec.dims) dim.open = true;
  return spec;
}

bool ShardingSpec::is_fully_replicated() const {
  return partial.empty() &&
         std::all_of(dims.begin(), dims.end(), [](const DimSpec& dim) { return dim.axes.empty(); });
}

namespace {

// An axis of one device moves nothing and cuts nothing.
bool same_cut(const AxisList& a, const AxisList& b) {
  if (a == b) return true;
  auto counts = [](const AxisRef& ref) { return ref.size > 1; };
  AxisList x, y;
  std::copy_if(a.begin(), a.end(), std::back_inserter(x), counts);
  std::copy_if(b.begin(), b.end(), std::back_inserter(y), counts);
  return x == y;
}

}  // namespace

bool ShardingSpec::same_layout(const ShardingSpec& other) const {
  if (dims.size() != other.dims.size() || !same_cut(partial, other.partial)) return false;
  if (!partial.empty() && !other.partial.empty() && partial_op != other.partial_op) return false;
  if (mesh != other.mesh && !mesh->same_devices(*other.mesh)) return false;
  for (size_t d = 0; d < dims.size(); ++d)
    if (!same_cut(dims[d].axes, other.dims[d].axes)) return false;
  return true;
}

bool ShardingSpec::operator==(const ShardingSpec& other) const {
  return (mesh == other.mesh || (mesh && other.mesh && *mesh == *other.mesh)) &&
         dims == other.dims && replicated == other.replicated && partial == other.partial &&
         (partial.empty() || partial_op == other.partial_op);
}

void verify(const ShardingSpec& spec) {
  if (!spec.mesh) throw_user("a sharding needs a mesh");
  const Mesh& mesh = *spec.mesh;
  const std::string where = describe(spec);
  AxisList used;
  auto use = [&](const AxisList& axes) {
    verify_axis_list(axes, mesh, where);
    for (const AxisRef& ref : axes) {
      for (const AxisRef& other : used)
        if (overlaps(ref, other) || !can_coexist(ref, other))
          throw_user("{}: axis {} is used twice (it overlaps {})", where, to_string(ref, mesh),
                     to_string(other, mesh));
      used.push_back(ref);
    }
  };
  for (const DimSpec& dim : spec.dims) {
    use(dim.axes);
    if (!dim.priority) continue;
    if (*dim.priority < 0) throw_user("{}: priority {} is negative", where, *dim.priority);
    if (dim.axes.empty() && !dim.open)
      throw_user("{}: a priority on an empty closed dimension has no meaning; open it or drop p{}",
                 where, *dim.priority);
  }
  use(spec.replicated);
  use(spec.partial);
  if (!std::is_sorted(spec.replicated.begin(), spec.replicated.end()))
    throw_user("{}: replicated axes must be in the order of the mesh", where);
  if (!std::is_sorted(spec.partial.begin(), spec.partial.end()))
    throw_user("{}: unreduced axes must be in the order of the mesh", where);
}

void verify(const ShardingSpec& spec, const Shape& shape) {
  verify(spec);
  if (spec.mesh->is_maximal()) return;
  if (spec.rank() != shape.size())
    throw_user("{}: has {} dimensions but the tensor <{}> has {}", describe(spec), spec.rank(),
               to_string(shape), shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 0 && total_size(spec.dims[d].axes) > 1)
      throw_user("{}: dimension {} of the tensor <{}> has size 0 and cannot be sharded",
                 describe(spec), d, to_string(shape));
}

std::string to_string(const ShardingSpec& spec) {
  static const Mesh kNone;  // a tensor that is on no mesh has no axes to print
  const Mesh& mesh = spec.mesh ? *spec.mesh : kNone;
  std::string text = "[";
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    const DimSpec& dim = spec.dims[d];
    if (d) text += ", ";
    text += "{" + to_string(dim.axes, mesh);
    if (dim.open) text += dim.axes.empty() ? "?" : ", ?";
    text += "}";
    if (dim.priority) text += fmt::format("p{}", *dim.priority);
  }
  text += "]";
  if (!spec.replicated.empty()) text += ", replicated={" + to_string(spec.replicated, mesh) + "}";
  if (!spec.partial.empty()) {
    text += ", unreduced=";
    if (spec.partial_op != ReduceOp::Sum) text += name(spec.partial_op);
    text += "{" + to_string(spec.partial, mesh) + "}";
  }
  return text;
}

std::string to_string_with_mesh(const ShardingSpec& spec) {
  const std::string mesh =
      spec.mesh->name.empty() ? "mesh" + to_string(*spec.mesh) : "@" + spec.mesh->name;
  return "<" + mesh + ", " + to_string(spec) + ">";
}

AxisRef parse_axis_ref(TextCursor& cursor, const Mesh& mesh) {
  const size_t begin = cursor.pos();
  const std::string axis = cursor.quoted();
  auto index = mesh.find_axis(axis);
  if (!index)
    throw ParseError(begin,
                     fmt::format("unknown axis \"{}\"; the mesh is {}", axis, to_string(mesh)));
  AxisRef ref = whole_axis(mesh, *index);
  if (cursor.accept(":")) {
    cursor.expect("(");
    ref.pre = static_cast<int32_t>(cursor.integer());
    cursor.expect(")");
    ref.size = static_cast<int32_t>(cursor.integer());
    if (is_whole(ref, mesh))
      throw ParseError(begin, fmt::format("sub-axis \"{}\":({}){} is the whole axis; write \"{}\"",
                                          axis, ref.pre, ref.size, axis));
    try {
      verify(ref, mesh);
    } catch (const UserError& error) {
      throw ParseError(begin, error.what());
    }
  }
  return ref;
}

AxisList parse_axis_list(TextCursor& cursor, const Mesh& mesh) {
  AxisList axes;
  cursor.expect("{");
  if (cursor.accept("}")) return axes;
  do axes.push_back(parse_axis_ref(cursor, mesh));
  while (cursor.accept(","));
  cursor.expect("}");
  return axes;
}

namespace {

DimSpec parse_dim(TextCursor& cursor, const Mesh& mesh) {
  DimSpec dim;
  cursor.expect("{");
  while (!cursor.accept("}")) {
    if (cursor.accept("?")) {
      dim.open = true;
      cursor.expect("}");
      break;
    }
    dim.axes.push_back(parse_axis_ref(cursor, mesh));
    if (!cursor.accept(",") && cursor.peek() != '}') cursor.fail("expected ',' or '}'");
  }
  if (cursor.peek() == 'p') {
    const size_t begin = cursor.pos();
    const std::string_view word = cursor.identifier();
    TextCursor digits(word.substr(1));
    if (!digits.at_integer()) throw ParseError(begin, "expected a priority such as p1");
    dim.priority = digits.integer();
  }
  return dim;
}

}  // namespace

ShardingSpec parse_sharding_dims(TextCursor& cursor, const MeshPtr& mesh) {
  ShardingSpec spec;
  spec.mesh = mesh;
  cursor.expect("[");
  if (!cursor.accept("]")) {
    do spec.dims.push_back(parse_dim(cursor, *mesh));
    while (cursor.accept(","));
    cursor.expect("]");
  }
  bool replicated = false, unreduced = false;
  while (cursor.accept(",")) {
    if (!replicated && cursor.accept("replicated")) {
      replicated = true;
      cursor.expect("=");
      spec.replicated = parse_axis_list(cursor, *mesh);
    } else if (!unreduced && cursor.accept("unreduced")) {
      unreduced = true;
      cursor.accept("=");
      if (cursor.peek() != '{') {
        const std::string_view word = cursor.identifier();
        auto op = reduce_op_from_name(word);
        if (!op) cursor.fail(fmt::format("unknown reduction '{}'", word));
        spec.partial_op = *op;
      }
      spec.partial = parse_axis_list(cursor, *mesh);
    } else {
      cursor.fail("expected 'replicated' or 'unreduced', once each");
    }
  }
  return spec;
}

ShardingSpec parse_sharding_body(TextCursor& cursor, const MeshLookup& lookup) {
  cursor.expect("<");
  MeshPtr mesh;
  if (cursor.peek() == '@') {
    const size_t begin = cursor.pos();
    const std::string symbol = cursor.symbol();
    mesh = lookup(symbol);
    if (!mesh) throw ParseError(begin, fmt::format("unknown mesh @{}", symbol));
  } else {
    cursor.expect("mesh");
    const size_t begin = cursor.pos();
    Mesh inline_mesh = parse_mesh_body(cursor);
    try {
      normalize_and_verify(inline_mesh);
    } catch (const UserError& error) {
      throw ParseError(begin, error.what());
    }
    mesh = std::make_shared<const Mesh>(std::move(inline_mesh));
  }
  cursor.expect(",");
  ShardingSpec spec = parse_sharding_dims(cursor, mesh);
  cursor.expect(">");
  return spec;
}

ShardingSpec parse_sharding(std::string_view text, const MeshPtr& mesh) {
  TextCursor cursor(text);
  ShardingSpec spec;
  try {
    spec = parse_sharding_dims(cursor, mesh);
    if (!cursor.at_end()) cursor.fail("unexpected text after the sharding");
  } catch (const ParseError& error) {
    throw_user("sharding '{}': {} at character {}; write it as [{{\"x\"}}, {{}}]", text,
               error.what(), error.offset + 1);
  }
  verify(spec);
  return spec;
}

}  // namespace cleave
