#include "cleave/runtime/ops_control.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/trace_scope.h"

namespace cleave {
namespace {

Traced trace_branch(const std::function<std::vector<Tensor>()>& branch) {
  if (!branch) throw_user("switch_case: a branch is an empty function");
  TraceScope scope(TraceScope::Takes::Everything);
  return scope.finish(branch());
}

std::vector<Type> result_types(const Traced& traced) { return traced.function().result_types; }

void check_types(const std::vector<Type>& actual, const std::vector<Type>& expected) {
  if (actual.size() != expected.size())
    throw_user("switch_case: branches give {} and {} values", expected.size(), actual.size());
  for (size_t i = 0; i < actual.size(); ++i)
    if (!(actual[i] == expected[i]))
      throw_user("switch_case: value {} is {} in one branch and {} in another; cast or reshape it",
                 i, to_string(expected[i]), to_string(actual[i]));
}

std::vector<Tensor> record_branches(const Tensor& index, std::vector<Type> results,
                                    std::span<const Traced> bodies) {
  std::vector<Tensor> operands{index};
  std::vector<std::vector<size_t>> capture_args;
  for (const Traced& body : bodies) {
    capture_args.emplace_back();
    for (const Tensor& capture : body.captures) {
      auto it = std::find_if(operands.begin() + 1, operands.end(),
                             [&](const Tensor& known) { return known.is_same(capture); });
      capture_args.back().push_back(static_cast<size_t>(it - operands.begin()));
      if (it == operands.end()) operands.push_back(capture);
    }
  }
  Graph form;
  std::vector<Type> types;
  for (const Tensor& operand : operands) types.push_back(operand.type());
  GraphBuilder b = GraphBuilder::function(form, "main", std::move(types));
  const std::vector<ValueId> args = form.region(b.region()).args;
  const NodeId node = form.add_node("stablehlo.case", {args[0]}, std::move(results));
  for (size_t i = 0; i < bodies.size(); ++i) {
    const RegionId region = form.add_region(node);
    std::vector<ValueId> values;
    for (size_t arg : capture_args[i]) values.push_back(args[arg]);
    std::vector<ValueId> ends = splice(bodies[i].graph, bodies[i].function(), form, region, values);
    form.append(region, form.add_node("stablehlo.return", std::move(ends), {}));
  }
  form.append(b.region(), node);
  b.finish(std::vector<ValueId>(form.node(node).results));
  return record_function(std::move(form), operands);
}

}  // namespace

std::vector<Tensor> switch_case(const Tensor& index,
                                const std::vector<std::function<std::vector<Tensor>()>>& branches) {
  if (branches.empty()) throw_user("switch_case: no branches");
  if (index.rank() != 0 || !is_integer(index.dtype()))
    throw_user("switch_case: the index is an integer scalar, got {}", to_string(index.type()));
  std::vector<Traced> bodies;
  for (const auto& branch : branches) bodies.push_back(trace_branch(branch));
  for (const Traced& body : bodies) check_types(result_types(body), result_types(bodies[0]));
  return record_branches(cast(index, DType::I32), result_types(bodies[0]), bodies);
}

}  // namespace cleave
