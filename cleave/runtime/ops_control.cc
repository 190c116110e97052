#include "cleave/runtime/ops_control.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/trace_scope.h"

namespace cleave {
namespace {

// A body traced on values like these; a carried value has no pending reduction.
Traced trace_body(std::span<const Tensor> like, const TensorFunction& function,
                  TraceScope::Takes takes = TraceScope::Takes::Dependent) {
  TraceScope scope(takes);
  std::vector<Tensor> args;
  for (const Tensor& tensor : like) {
    std::optional<ShardingSpec> spec;
    if (tensor.mesh()) {
      spec = tensor.sharding();
      spec->partial.clear();
    }
    args.push_back(scope.placeholder(tensor.type(), spec));
  }
  return scope.finish(function(args));
}

Traced trace_branch(const std::function<std::vector<Tensor>()>& branch) {
  return trace_body(
      {}, [&](std::span<const Tensor>) { return branch(); }, TraceScope::Takes::Everything);
}

std::vector<Type> result_types(const Traced& traced) { return traced.function().result_types; }

void check_types(std::string_view op, const char* what, const std::vector<Type>& actual,
                 const std::vector<Type>& expected) {
  if (actual.size() != expected.size())
    throw_user("{}: {} gives {} values, {} are needed", op, what, actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    if (!(actual[i] == expected[i]))
      throw_user("{}: value {} of {} is {}, and must be {}; cast or reshape it", op, i, what,
                 to_string(actual[i]), to_string(expected[i]));
}

// An op whose bodies take `carried` values and see captures from outside.
std::vector<Tensor> record_with_bodies(std::string_view op, const std::vector<Tensor>& inputs,
                                       size_t carried, std::vector<Type> results,
                                       std::span<const Traced> bodies) {
  std::vector<Tensor> operands = inputs;
  std::vector<std::vector<size_t>> capture_args;
  for (const Traced& body : bodies) {
    capture_args.emplace_back();
    for (const Tensor& capture : body.captures) {
      auto it = std::find_if(operands.begin() + static_cast<int64_t>(inputs.size()), operands.end(),
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
  const NodeId node = form.add_node(
      op, {args.begin(), args.begin() + static_cast<int64_t>(inputs.size())}, std::move(results));
  for (size_t i = 0; i < bodies.size(); ++i) {
    const RegionId region = form.add_region(node);
    for (size_t j = 0; j < carried; ++j) form.add_argument(region, inputs[j].type());
    std::vector<ValueId> values = form.region(region).args;
    for (size_t arg : capture_args[i]) values.push_back(args[arg]);
    std::vector<ValueId> ends = splice(bodies[i].graph, bodies[i].function(), form, region, values);
    form.append(region, form.add_node("stablehlo.return", std::move(ends), {}));
  }
  form.append(b.region(), node);
  b.finish(std::vector<ValueId>(form.node(node).results));
  return record_function(std::move(form), operands);
}

}  // namespace

std::vector<Tensor> while_loop(const std::vector<Tensor>& init,
                               const std::function<Tensor(std::span<const Tensor>)>& condition,
                               const TensorFunction& body) {
  std::vector<Type> types;
  for (const Tensor& tensor : init) types.push_back(tensor.type());
  const Traced bodies[] = {
      trace_body(init, [&](std::span<const Tensor> x) { return std::vector{condition(x)}; }),
      trace_body(init, body)};
  check_types("while_loop", "the condition", result_types(bodies[0]),
              {Type::tensor(DType::Bool, {})});
  check_types("while_loop", "the body", result_types(bodies[1]), types);
  return record_with_bodies("stablehlo.while", init, init.size(), types, bodies);
}

std::vector<Tensor> fori_loop(
    int64_t begin, int64_t end, const std::vector<Tensor>& init,
    const std::function<std::vector<Tensor>(const Tensor& i, std::span<const Tensor>)>& body) {
  std::vector<Tensor> carried{scalar(begin, DType::I32)};
  carried.insert(carried.end(), init.begin(), init.end());
  std::vector<Tensor> results = while_loop(
      carried, [&](std::span<const Tensor> x) { return less(x[0], end); },
      [&](std::span<const Tensor> x) {
        std::vector<Tensor> next = body(x[0], x.subspan(1));
        next.insert(next.begin(), x[0] + 1);
        return next;
      });
  results.erase(results.begin());
  return results;
}

std::vector<Tensor> cond(const Tensor& predicate,
                         const std::function<std::vector<Tensor>()>& then_branch,
                         const std::function<std::vector<Tensor>()>& else_branch) {
  if (!(predicate.type() == Type::tensor(DType::Bool, {})))
    throw_user("cond: the predicate is a bool scalar, got {}", to_string(predicate.type()));
  const Traced bodies[] = {trace_branch(then_branch), trace_branch(else_branch)};
  check_types("cond", "the else branch", result_types(bodies[1]), result_types(bodies[0]));
  return record_with_bodies("stablehlo.if", {predicate}, 0, result_types(bodies[0]), bodies);
}

std::vector<Tensor> switch_case(const Tensor& index,
                                const std::vector<std::function<std::vector<Tensor>()>>& branches) {
  if (branches.empty()) throw_user("switch_case: no branches");
  if (index.rank() != 0 || !is_integer(index.dtype()))
    throw_user("switch_case: the index is an integer scalar, got {}", to_string(index.type()));
  std::vector<Traced> bodies;
  for (const auto& branch : branches) bodies.push_back(trace_branch(branch));
  for (const Traced& body : bodies)
    check_types("switch_case", "a branch", result_types(body), result_types(bodies[0]));
  return record_with_bodies("stablehlo.case", {cast(index, DType::I32)}, 0, result_types(bodies[0]),
                            bodies);
}

}  // namespace cleave
