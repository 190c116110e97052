#include "cleave/ops/collective/family.h"
#include "cleave/ops/collective/process_groups.h"
#include "cleave/ops/expansions.h"
#include "cleave/ops/expr.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/op.h"
#include "cleave/ops/reduce/reducer.h"

// all_reduce and reduce_scatter by products and other bodies: the parts of all devices, folded.
namespace cleave {
namespace {

int64_t group_size(const Node& node) {
  const Attribute* attribute = node.attrs.find("replica_groups");
  const auto* elements = attribute ? attribute->as<ElementsAttr>() : nullptr;
  require(elements && elements->literal.type.rank() == 2 && elements->literal.type.shape[1] > 0 &&
              global_mode(node) != GroupMode::CrossReplicaAndPartition,
          node,
          "with a body that is no sum, maximum or minimum has a derivative where replica_groups "
          "names its groups");
  return elements->literal.type.shape[1];
}

// The parts along a dimension, folded by the body in order.
Expr fold_parts(GraphBuilder& b, RegionId body, Expr parts, int64_t dim) {
  Shape shape = parts.shape();
  const int64_t count = shape[dim];
  shape.erase(shape.begin() + dim);
  auto part = [&](int64_t i) {
    std::vector<int64_t> start(parts.shape().size(), 0), limit = parts.shape();
    start[dim] = i;
    limit[dim] = i + 1;
    return reshape(slice(parts, start, limit), shape);
  };
  Expr total = part(0);
  for (int64_t i = 1; i < count; ++i)
    total = expr(b, inline_scalars(b, body, std::vector<ValueId>{total, part(i)}, shape)[0]);
  return total;
}

std::vector<ValueId> expand_collective(GraphBuilder& b, const Node& node,
                                       std::span<const ValueId> operands, ExpandUse) {
  const RegionId body = node.regions[0];
  const auto op = common_reducer(b.graph(), body, false);
  const bool scatters = is<op::ReduceScatter>(node);
  if (op == ReduceOp::Sum || (!scatters && (op == ReduceOp::Max || op == ReduceOp::Min))) return {};
  std::vector<ValueId> results;
  for (ValueId operand : operands) {
    const Expr x = expr(b, operand);
    const int64_t count = group_size(node);
    Shape shape = x.shape();
    AttrDict attrs = meeting_attrs(node);
    if (!scatters) {
      shape.insert(shape.begin(), 1);
      Type type = Type::tensor(x.dtype(), shape);
      type.shape[0] = count;
      attrs.set("all_gather_dim", int_attr(0));
      const Expr all{&b, b.emit_as(type, "stablehlo.all_gather", {reshape(x, shape)}, attrs)};
      results.push_back(fold_parts(b, body, all, 0));
      continue;
    }
    // Every device gets its piece of all others.
    const int64_t dim = node.attrs.get_int("scatter_dimension");
    shape[dim] /= count;
    shape.insert(shape.begin() + dim, count);
    attrs.set("split_dimension", int_attr(dim));
    attrs.set("concat_dimension", int_attr(dim));
    attrs.set("split_count", int_attr(count));
    attrs.erase("use_global_device_ids");
    const Expr pieces{&b, b.emit_as(Type::tensor(x.dtype(), shape), "stablehlo.all_to_all",
                                    {reshape(x, shape)}, attrs)};
    results.push_back(fold_parts(b, body, pieces, dim));
  }
  return results;
}

}  // namespace

void add_collective_expansions(OpRegistry& r) {
  for (const char* name : {"stablehlo.all_reduce", "stablehlo.reduce_scatter"})
    set_expansion(r, name, expand_collective, kInDerivatives);
}

}  // namespace cleave
