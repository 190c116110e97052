#include <algorithm>

#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/op.h"
#include "cleave/ops/reduce/local_windows.h"
#include "cleave/ops/sort/local_rounds.h"
#include "cleave/spmd/partitioner.h"

namespace cleave {
namespace {

// The axes of `dim` in the first operand that has some there.
AxisList axes_along(std::span<const ShardingSpec> have, const RoundsForm& form) {
  for (size_t i = 0; i < form.operands && i < have.size(); ++i)
    if (have[i].mesh && !have[i].dims[static_cast<size_t>(form.dim)].axes.empty())
      return have[i].dims[static_cast<size_t>(form.dim)].axes;
  return {};
}

bool is_free(const AxisList& axes, const ShardingSpec& spec) {
  for (const DimSpec& dim : spec.dims)
    for (const AxisRef& other : dim.axes)
      for (const AxisRef& ref : axes)
        if (overlaps(ref, other) || !can_coexist(ref, other)) return false;
  return spec.partial.empty();
}

}  // namespace

bool Partitioner::visit_in_rounds(const Node& node, const OpPartition& how,
                                  std::span<const ShardingSpec> have, const Wanted& wanted,
                                  RegionId target) {
  const std::optional<RoundsForm> possible = rounds_form(source_, node, 1);
  if (!possible) return false;
  const AxisList axes = axes_along(have, *possible);
  const int64_t parts = total_size(axes);
  if (parts == 1 || !rounds_form(source_, node, parts)) return false;
  auto free = [&](const ShardingSpec& spec) { return is_free(axes, spec); };
  if (!std::all_of(how.operands.begin(), how.operands.end(), free) ||
      !std::all_of(how.results.begin(), how.results.end(), free))
    return false;

  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    ShardingSpec spec = how.operands[i];
    if (i < possible->operands) spec.dims[static_cast<size_t>(possible->dim)].axes = axes;
    operands.push_back(use(node.operands[i], spec, target));
  }
  const std::vector<ValueId> others(operands.begin() + static_cast<int64_t>(possible->operands),
                                    operands.end());
  std::vector<Type> types;
  std::vector<ShardingSpec> cut = how.results, whole = how.results;
  for (size_t i = 0; i < node.results.size(); ++i) {
    types.push_back(source_.result_type(node, i));
    types.back().shape.insert(types.back().shape.begin(), parts);
    cut[i].dims.insert(cut[i].dims.begin(), DimSpec{axes, false, {}});
    whole[i].dims.insert(whole[i].dims.begin(), DimSpec{});
  }
  AttrDict attrs = node.attrs;
  attrs.erase("sdy.sharding");
  attrs.set("cleave.parts", int_attr(parts));
  const NodeId first = add(node.name(), std::move(operands), types, std::move(attrs), cut, target);
  program_.graph.node(first).location = node.location;
  copy_regions(node, first);
  std::vector<ValueId> candidates = program_.graph.node(first).results;
  for (size_t i = 0; i < candidates.size(); ++i)
    candidates[i] = reshard(candidates[i], whole[i], target, types[i].dtype);
  define_results(node, second_round(node, std::move(candidates), others, how.results, target),
                 wanted, target);
  return true;
}

bool Partitioner::visit_running(const Node& node, const OpPartition& how, const Wanted& wanted,
                                RegionId target) {
  if (!how.halo) return false;
  const std::optional<RunningForm> form = running_form(source_, node);
  if (!form) return false;
  const auto dim = static_cast<size_t>(form->dim);
  const AxisList& axes = how.operands[0].dims[dim].axes;
  const int64_t parts = total_size(axes);
  const Type& type = source_.result_type(node);
  if (parts == 1 || parts >= type.shape[dim] || how.operands[0].is_partial() ||
      how.operands[1].is_partial() || how.results[0].is_partial())
    return false;
  const ValueId x = use(node.operands[0], how.operands[0], target);
  const ValueId init = use(node.operands[1], how.operands[1], target);
  auto emit_part = [&](std::string_view op, std::vector<ValueId> operands, Type result,
                       AttrDict attrs, ShardingSpec spec, bool body) {
    const NodeId id = add(op, std::move(operands), {std::move(result)}, std::move(attrs),
                          {std::move(spec)}, target);
    program_.graph.node(id).location = node.location;
    if (body) copy_regions(node, id);
    return program_.graph.node(id).results[0];
  };

  AttrDict attrs = node.attrs;
  attrs.erase("sdy.sharding");
  attrs.set("cleave.parts", int_attr(parts));
  const ValueId own =
      emit_part(node.name(), {x, init}, type, std::move(attrs), how.results[0], true);

  // What each device has in all: {parts, rows...}, and then running over the devices.
  Type totals = type;
  totals.shape.erase(totals.shape.begin() + form->dim);
  totals.shape.insert(totals.shape.begin(), parts);
  ShardingSpec cut = how.results[0];
  cut.dims.erase(cut.dims.begin() + form->dim);
  ShardingSpec whole = cut;
  cut.dims.insert(cut.dims.begin(), DimSpec{axes, false, {}});
  whole.dims.insert(whole.dims.begin(), DimSpec{});
  AttrDict reduce;
  reduce.set("dimensions", ints_attr({form->dim}));
  reduce.set("cleave.parts", int_attr(parts));
  ValueId total = emit_part("stablehlo.reduce", {x, init}, totals, std::move(reduce), cut, true);
  total = reshard(total, whole, target, totals.dtype);
  std::vector<int64_t> window(totals.rank(), 1), padding(2 * totals.rank(), 0);
  window[0] = parts;
  padding[form->reverse ? 1 : 0] = parts - 1;
  AttrDict running;
  running.set("window_dimensions", ints_attr(window));
  running.set("padding", padding_attr(padding));
  total = emit_part(node.name(), {total, init}, totals, std::move(running), whole, true);

  AttrDict join;
  join.set("dimension", int_attr(form->dim));
  join.set("reverse", int_attr(form->reverse));
  join.set("op", string_attr(form->op));
  define_results(node,
                 {emit_part("cleave.running_join", {own, total}, type, std::move(join),
                            how.results[0], false)},
                 wanted, target);
  return true;
}

// Candidates have the parts in front.
std::vector<ValueId> Partitioner::second_round(const Node& node, std::vector<ValueId> candidates,
                                               std::vector<ValueId> others,
                                               const std::vector<ShardingSpec>& results,
                                               RegionId target) {
  std::vector<Type> types;
  for (ValueId result : node.results) types.push_back(source_.type(result));
  AttrDict attrs = node.attrs;
  attrs.erase("sdy.sharding");
  if (is<op::Reduce>(node)) {
    attrs.set("dimensions", ints_attr({0}));
    candidates.insert(candidates.end(), others.begin(), others.end());
    const NodeId id = add(node.name(), std::move(candidates), std::move(types), std::move(attrs),
                          results, target);
    program_.graph.node(id).location = node.location;
    copy_regions(node, id);
    return program_.graph.node(id).results;
  }

  // top_k: {parts, rows..., k} as rows of all candidates, and of these the best.
  auto one = [&](std::string_view op, std::vector<ValueId> operands, Type type, AttrDict with) {
    const ShardingSpec& spec = results[0];
    const NodeId id = add(op, std::move(operands), {std::move(type)}, std::move(with), {}, target);
    const ValueId value = program_.graph.node(id).results[0];
    ShardingSpec own =
        ShardingSpec::closed_replicated(spec.mesh, program_.graph.type(value).rank());
    for (size_t d = 0; d + 1 < spec.dims.size(); ++d) own.dims[d] = spec.dims[d];
    set_layout(value, std::move(own));
    return value;
  };
  const auto rank = static_cast<int64_t>(types[0].rank());
  for (ValueId& value : candidates) {
    Type type = program_.graph.type(value);
    std::vector<int64_t> order;
    for (int64_t d = 1; d < rank; ++d) order.push_back(d);
    order.insert(order.end(), {0, rank});
    AttrDict permutation;
    permutation.set("permutation", ints_attr(order));
    std::rotate(type.shape.begin(), type.shape.begin() + 1, type.shape.end() - 1);
    value = one("stablehlo.transpose", {value}, type, std::move(permutation));
    type.shape[static_cast<size_t>(rank) - 1] *= type.shape.back();
    type.shape.pop_back();
    value = one("stablehlo.reshape", {value}, type, {});
  }
  const NodeId best = add(node.name(), {candidates[0]}, types, std::move(attrs), results, target);
  program_.graph.node(best).location = node.location;
  const ValueId places = program_.graph.node(best).results[1];
  Type indices = types[1];
  indices.shape.push_back(1);
  std::vector<int64_t> rows;
  for (int64_t d = 0; d + 1 < rank; ++d) rows.push_back(d);
  const WindowMap map{{}, {rank - 1}, rows, rows, {rank - 1}, rank};
  AttrDict gather;
  gather.set(kGatherDims, gather_attr(map));
  gather.set("slice_sizes", ints_attr(std::vector<int64_t>(static_cast<size_t>(rank), 1)));
  gather.set("indices_are_sorted", false);
  const ValueId starts = one("stablehlo.reshape", {places}, indices, {});
  return {program_.graph.node(best).results[0],
          one("stablehlo.gather", {candidates[1], starts}, types[1], std::move(gather))};
}

}  // namespace cleave
