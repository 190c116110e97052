#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/plan/names.h"
#include "cleave/spmd/transfer.h"

namespace cleave::plan {
namespace {

bool contains(const std::vector<int64_t>& list, size_t dim) {
  return std::find(list.begin(), list.end(), static_cast<int64_t>(dim)) != list.end();
}

// The argument that a value is but for its precision, shape and order.
ValueId argument_behind(const Graph& graph, ValueId value) {
  while (true) {
    const NodeId id = graph.value(value).producer;
    if (!id.valid()) return value;
    const Node& node = graph.node(id);
    const OpDef* def = node.def;
    if (!(def->has(kSameValue) || def->has(kRelabels) || def->has(kWindow))) return {};
    value = node.operands[0];
  }
}

AxisList sharding_axes(const ShardingSpec& spec) {
  AxisList axes;
  for (const DimSpec& dim : spec.dims) axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  std::sort(axes.begin(), axes.end());
  return axes;
}

class PatternReader {
 public:
  explicit PatternReader(const BoundPlan& bound)
      : bound_(bound), plan_(bound.plan), flat_(bound.flat) {}

  std::vector<NamedPattern> run() {
    std::map<std::string, size_t> known;
    std::vector<NamedPattern> patterns;
    for (size_t i = 0; i < plan_.ops.size(); ++i) {
      const PlannedOp& op = plan_.ops[i];
      const Node& node = flat_.node(bound_.ops[i].node);
      const auto dims = dot_dims_of(flat_, node);
      if (!dims || op.operands.size() != 2) continue;
      NamedPattern pattern = name_matmul(op, node, *dims);
      pattern.result_layout = op.results[0].mesh ? to_string(op.results[0]) : "";
      std::string key = pattern.types + pattern.weight_layout + pattern.result_layout;
      for (const std::string& name : pattern.names) key += "|" + name;
      const auto [found, is_new] = known.try_emplace(key, patterns.size());
      if (is_new) {
        patterns.push_back(std::move(pattern));
        continue;
      }
      patterns[found->second].ops.push_back(op.name);
      for (ValueId weight : pattern.weights) patterns[found->second].weights.push_back(weight);
    }
    return patterns;
  }

 private:
  std::string text(const AxisList& axes) const { return to_string(axes, *plan_.mesh); }

  NamedPattern name_matmul(const PlannedOp& op, const Node& node, const DotDims& dims) const {
    NamedPattern pattern;
    pattern.ops = {op.name};
    pattern.types =
        to_string(flat_.operand_type(node, 0)) + " x " + to_string(flat_.operand_type(node, 1));
    const ValueId right = argument_behind(flat_, node.operands[1]);
    const ValueId left = argument_behind(flat_, node.operands[0]);
    // The weight is the second operand in the forward pass, either one after it.
    const bool weight_is_left = !right.valid() && left.valid();
    const ValueId weight = weight_is_left ? left : right;
    const size_t w = weight_is_left ? 0 : 1;
    const ShardingSpec& of_weight = op.operands[w].spec;
    const ShardingSpec& of_other = op.operands[1 - w].spec;
    const auto& batch = w == 0 ? dims.lhs_batch : dims.rhs_batch;
    const auto& contract = w == 0 ? dims.lhs_contract : dims.rhs_contract;
    const auto& other_batch = w == 0 ? dims.rhs_batch : dims.lhs_batch;
    const auto& other_contract = w == 0 ? dims.rhs_contract : dims.lhs_contract;
    const bool has_weight = weight.valid();

    auto add = [&](const char* name, const AxisList& axes) {
      if (!axes.empty()) pattern.names.push_back(fmt::format("{} over {}", name, text(axes)));
    };
    for (size_t d = 0; d < of_other.dims.size(); ++d)
      if (!contains(other_batch, d) && !contains(other_contract, d))
        add(!has_weight ? "split"
            : d == 0    ? "data parallel"
                        : "sequence parallel",
            of_other.dims[d].axes);
    for (size_t d = 0; d < of_weight.dims.size(); ++d) {
      const AxisList& axes = of_weight.dims[d].axes;
      if (contains(batch, d))
        add(has_weight ? "expert parallel" : "batch parallel", axes);
      else if (contains(contract, d))
        add(has_weight ? "row-parallel" : "partial sums", axes);
      else
        add(has_weight ? "column-parallel" : "split", axes);
    }
    if (!has_weight) return finish(std::move(pattern));
    const PlannedValue* lies = bound_.planned(weight);
    if (!lies) return finish(std::move(pattern));
    pattern.weight = lies->name;
    pattern.weights = {weight};
    if (lies->spec.mesh) {
      pattern.weight_layout = to_string(lies->spec);
      const AxisList gathered = without(sharding_axes(lies->spec), sharding_axes(of_weight));
      add("fully sharded (gathered for use)", gathered);
    }
    return finish(std::move(pattern));
  }

  static NamedPattern finish(NamedPattern pattern) {
    if (pattern.names.empty()) pattern.names.push_back("whole on every device");
    return pattern;
  }

  const BoundPlan& bound_;
  const Plan& plan_;
  const Graph& flat_;
};

}  // namespace

std::vector<NamedPattern> named_patterns(const BoundPlan& bound) {
  return PatternReader(bound).run();
}

std::vector<NamedPattern> named_patterns(const Plan& plan, const Graph& graph) {
  const Graph flat = flatten(graph, plan.entry);
  return named_patterns(bind(plan, flat));
}

}  // namespace cleave::plan
