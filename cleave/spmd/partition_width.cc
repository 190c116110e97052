#include "cleave/spmd/partition_width.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/spmd/partitioner.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave {
namespace {

bool is_sum(const ShardingSpec& spec) {
  return spec.is_partial() &&
         (spec.partial_op == ReduceOp::Sum || spec.partial_op == ReduceOp::Avg);
}

// A contraction, which adds in 32 bits in any case and can hand that over.
bool is_contraction(const Graph& graph, const Node& node) {
  return node.def->cost && node.def->cost(graph, node).kernel == KernelClass::Matmul;
}

bool is_plain_sum(const Graph& graph, const Node& node) {
  return is<op::Reduce>(node) && node.operands.size() == 2 &&
         common_reducer(graph, node.regions[0], false) == ReduceOp::Sum;
}

}  // namespace

void add_sum_body(Graph& graph, RegionId region) {
  const Type scalar = Type::tensor(DType::F32, {});
  const ValueId a = graph.add_argument(region, scalar), b = graph.add_argument(region, scalar);
  const NodeId sum = graph.add_node("stablehlo.add", {a, b}, {scalar});
  graph.append(region, sum);
  graph.append(region, graph.add_node("stablehlo.return", {graph.node(sum).results[0]}, {}));
}

bool Partitioner::is_wide(ValueId source, ValueId version) const {
  const Type &has = program_.graph.type(version), &says = source_.type(source);
  return has.is_tensor() && says.is_tensor() && has.dtype != says.dtype;
}

bool Partitioner::has_wide(ValueId source) const {
  const std::vector<ValueId>& versions = versions_[source.index];
  return std::any_of(versions.begin(), versions.end(),
                     [&](ValueId version) { return is_wide(source, version); });
}

ValueId Partitioner::convert(ValueId value, DType dtype, RegionId target) {
  Type type = program_.graph.type(value);
  type.dtype = dtype;
  const NodeId id =
      add("stablehlo.convert", {value}, {std::move(type)}, {}, {spec_of(value)}, target);
  return program_.graph.node(id).results[0];
}

ValueId Partitioner::use_as_is(ValueId source, RegionId target) {
  const ValueId value = current(source);
  return is_wide(source, value) ? use(source, ShardingSpec(spec_of(value)), target) : value;
}

// Pending sums in 32 bits, everything else of 16 bits converted.
ValueId Partitioner::use_wide(ValueId source, const ShardingSpec& spec, RegionId target) {
  if (!is_half(source_.type(source).dtype)) return use(source, spec, target);
  if (spec.is_partial())
    for (size_t i = 0; i < versions_[source.index].size(); ++i) {
      const ValueId version = versions_[source.index][i];
      if (!is_wide(source, version)) continue;
      if (spec_of(version).same_layout(spec)) return version;
      const ValueId made = reshard(version, spec, target, DType::F32);
      versions_[source.index].push_back(made);
      made_.push_back(source);
      return made;
    }
  return convert(use(source, spec, target), DType::F32, target);
}

// Which ops leave, or pass on, a sum of 16-bit floats that is pending over devices in 32 bits.
//   dot_general bf16, bf16 -> bf16 over a sharded contraction: bf16, bf16 -> f32    WideResult
//   add of two such sums, the reshape of one: f32                                   Wide
//   reduce of bf16 over a sharded dimension: of f32                                 Wide
// Other ops that carry sums (gather, concatenate) get parts that are rounded to 16 bits.
Partitioner::Width Partitioner::width_of(const Node& node, const OpPartition& how) const {
  if (!options_.wide_sums || node.attrs.has(kPlannedAttr) || node.results.empty())
    return Width::AsIs;
  bool half = false, carried = false;
  AxisList from_operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (!how.operands[i].is_partial()) continue;
    const AxisList& axes = how.operands[i].partial;
    from_operands.insert(from_operands.end(), axes.begin(), axes.end());
    carried |= is_sum(how.operands[i]) && has_wide(node.operands[i]);
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (!how.results[i].mesh || !is_sum(how.results[i])) return Width::AsIs;
    half |= is_half(source_.result_type(node, i).dtype);
  }
  const bool reduces = half && !without(how.results[0].partial, from_operands).empty();
  if (half && node.results.size() == 1) {
    if (reduces && is_contraction(source_, node)) return Width::WideResult;
    if ((reduces || carried) && is_plain_sum(source_, node)) return Width::Wide;
  }
  const bool any_type =
      (node.def->has(kElementwise) || node.def->has(kViewLike)) && node.regions.empty();
  return carried && any_type ? Width::Wide : Width::AsIs;
}

}  // namespace cleave
