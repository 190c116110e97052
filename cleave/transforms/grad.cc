#include "cleave/transforms/grad.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/transforms/derivative_cache.h"
#include "cleave/transforms/diff.h"
#include "cleave/transforms/region_copy.h"
#include "cleave/transforms/vmap.h"

namespace cleave::grad_detail {
namespace {

std::vector<Tensor> with_captures(std::span<const Tensor> leaves, const Trace& trace) {
  std::vector<Tensor> all(leaves.begin(), leaves.end());
  all.insert(all.end(), trace.captures.begin(), trace.captures.end());
  return all;
}

std::vector<Tensor> run(const Graph& graph, const std::string& name,
                        const std::vector<Tensor>& args) {
  return replay(graph, *graph.find_function(name), args);
}

// A leaf by its name, "[1].w", or by its number if it has none.
std::string place(const std::vector<std::string>& names, size_t i) {
  return i < names.size() && !names[i].empty() ? names[i] : std::to_string(i);
}

// A cotangent lies on the devices as its argument does.
Tensor laid_out_like(const Tensor& cotangent, const Tensor& argument) {
  if (!argument.mesh()) return cotangent;
  ShardingSpec spec = argument.sharding();
  spec.partial.clear();
  return cotangent.with_sharding(spec);
}

std::vector<size_t> smooth_results(const Function& function) {
  std::vector<size_t> places;
  for (size_t i = 0; i < function.result_types.size(); ++i)
    if (is_differentiable(function.result_types[i])) places.push_back(i);
  return places;
}

// Cuts a function in two where arguments from `first` on come in: what does not need them, and the
// rest. The second takes what it needs of the first, then those arguments.
struct Halves {
  std::vector<ValueId> kept;  // values of the function that the second half needs
  std::string first, second;
};
Halves split(Graph& graph, const std::string& name, size_t late, size_t num_values) {
  const Function source = *graph.find_function(name);
  const std::vector<ValueId> args = graph.region(source.body).args;
  const std::vector<NodeId> nodes = graph.region(source.body).nodes;
  std::vector<bool> is_late(graph.num_values());
  for (size_t i = late; i < args.size(); ++i) is_late[args[i].index] = true;
  std::vector<NodeId> early_nodes, late_nodes;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    bool depends = false;
    for (ValueId value : captured_by_nodes(graph, {nodes[i]})) depends |= is_late[value.index];
    (depends ? late_nodes : early_nodes).push_back(nodes[i]);
    if (depends)
      for (ValueId result : graph.node(nodes[i]).results) is_late[result.index] = true;
  }
  const std::vector<ValueId> returned = graph.node(nodes.back()).operands;
  std::vector<ValueId> needed = captured_by_nodes(graph, late_nodes);
  for (size_t i = num_values; i < returned.size(); ++i)
    if (std::ranges::find(needed, returned[i]) == needed.end()) needed.push_back(returned[i]);
  Halves halves;
  for (ValueId value : needed)
    if (!is_late[value.index]) halves.kept.push_back(value);

  auto write = [&](const std::string& made, const std::vector<ValueId>& inputs,
                   const std::vector<NodeId>& body, const std::vector<ValueId>& outputs) {
    std::vector<Type> types;
    for (ValueId input : inputs) types.push_back(graph.type(input));
    GraphBuilder b = GraphBuilder::function(graph, made, types);
    ValueTable table;
    for (size_t i = 0; i < inputs.size(); ++i) table.set(inputs[i], b.arg(i));
    for (NodeId node : body) copy_within(graph, node, b.region(), table);
    b.finish(table.map(outputs));
    return made;
  };
  const std::vector<ValueId> early_args(args.begin(), args.begin() + static_cast<ptrdiff_t>(late));
  std::vector<ValueId> outputs(returned.begin(),
                               returned.begin() + static_cast<ptrdiff_t>(num_values));
  outputs.insert(outputs.end(), halves.kept.begin(), halves.kept.end());
  halves.first = write(name + "_forward", early_args, early_nodes, outputs);
  std::vector<ValueId> inputs = halves.kept;
  inputs.insert(inputs.end(), args.begin() + static_cast<ptrdiff_t>(late), args.end());
  halves.second = write(name + "_backward", inputs, late_nodes,
                        {returned.begin() + static_cast<ptrdiff_t>(num_values), returned.end()});
  return halves;
}

}  // namespace

std::vector<size_t> smooth_leaves(std::span<const Tensor> leaves, const LeafRanges& ranges,
                                  std::span<const size_t> args) {
  std::vector<size_t> result;
  for (size_t arg : args) {
    if (arg >= ranges.args.size())
      throw_user("a derivative by argument {} of a function of {}", arg, ranges.args.size());
    for (size_t i = ranges.args[arg].first; i < ranges.args[arg].second; ++i) {
      if (!leaves[i].valid())
        throw_user(
            "a derivative by argument {}, whose tensor {} of {} is empty: assign it a value first",
            arg, i - ranges.args[arg].first, ranges.args[arg].second - ranges.args[arg].first);
      if (is_differentiable(leaves[i].type())) result.push_back(i);
    }
  }
  return result;
}

ValueAndGrad value_and_grad(Trace trace, std::span<const Tensor> leaves,
                            const std::vector<size_t>& wanted) {
  if (wanted.empty())
    throw_user(
        "grad: the arguments hold no tensor of floats or complex numbers to differentiate by");
  const size_t values = trace.graph.functions[0].result_types.size();
  const std::vector<Tensor> args = with_captures(leaves, trace);
  const std::vector<Tensor> all =
      record_derived(derived("value_and_grad", wanted, std::move(trace.graph),
                             [&](Graph& graph) {
                               return cleave::value_and_grad(graph, "main", {wanted, {}, true});
                             }),
                     args);
  ValueAndGrad result;
  result.values.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(values));
  result.cotangents.resize(leaves.size());
  for (size_t k = 0; k < wanted.size(); ++k)
    result.cotangents[wanted[k]] = laid_out_like(all[values + k], leaves[wanted[k]]);
  return result;
}

Jvp jvp(Trace trace, std::span<const Tensor> leaves, std::span<const Tensor> tangents) {
  if (tangents.size() != leaves.size())
    throw_user("jvp: {} tangents for {} tensors", tangents.size(), leaves.size());
  std::vector<size_t> wanted;
  std::vector<Tensor> args = with_captures(leaves, trace);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!is_differentiable(leaves[i].type()) || !tangents[i].valid()) continue;
    if (!(tangents[i].type() == leaves[i].type()))
      throw_user(
          "jvp: the tangent of argument {} is {}, and the argument is {}; they must be alike",
          place(trace.arg_names, i), to_string(tangents[i].type()), to_string(leaves[i].type()));
    wanted.push_back(i);
    args.push_back(tangents[i]);
  }
  if (wanted.empty())
    throw_user("jvp: no tangent of a tensor of floats or complex numbers is given");
  const std::vector<size_t> smooth = smooth_results(trace.graph.functions[0]);
  const size_t values = trace.graph.functions[0].result_types.size();
  const std::vector<Tensor> all =
      record_derived(derived("jvp", wanted, std::move(trace.graph),
                             [&](Graph& graph) {
                               return cleave::jvp(graph, "main", {wanted, {}, true});
                             }),
                     args);
  Jvp result;
  result.values.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(values));
  result.tangents.resize(values);
  for (size_t k = 0; k < smooth.size(); ++k) result.tangents[smooth[k]] = all[values + k];
  return result;
}

std::vector<Tensor> Pullback::operator()(std::span<const Tensor> cotangents) const {
  if (cotangents.size() != values.size())
    throw_user("vjp: {} cotangents for {} results", cotangents.size(), values.size());
  std::vector<Tensor> args = residuals;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!is_differentiable(values[i].type())) continue;
    if (cotangents[i].valid() && !(cotangents[i].type() == values[i].type()))
      throw_user("vjp: the cotangent of result {} is {}, and the result is {}; they must be alike",
                 i, to_string(cotangents[i].type()), to_string(values[i].type()));
    args.push_back(cotangents[i].valid() ? cotangents[i] : zeros_like(values[i]));
  }
  const std::vector<Tensor> made = replay(*graph, graph->functions.back(), args);
  std::vector<Tensor> result(num_args);
  for (size_t k = 0; k < wanted.size(); ++k) result[wanted[k]] = made[k];
  return result;
}

Pullback vjp(Trace trace, std::span<const Tensor> leaves, const std::vector<size_t>& wanted) {
  const std::vector<Tensor> args = with_captures(leaves, trace);
  const size_t values = trace.graph.functions[0].result_types.size();
  const DerivedFunction forward = derived("vjp", wanted, std::move(trace.graph), [&](Graph& graph) {
    const std::string name = cleave::vjp(graph, "main", {wanted, {}, true});
    return split(graph, name, args.size(), values).first;
  });
  const std::vector<Tensor> all = record_derived(forward, args);
  Pullback result;
  result.values.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(values));
  result.residuals.assign(all.begin() + static_cast<ptrdiff_t>(values), all.end());
  result.wanted = wanted;
  result.num_args = leaves.size();
  result.graph = forward.graph;
  return result;
}

size_t only_leaf(const char* what, const LeafRanges& ranges, size_t n) {
  if (n >= ranges.args.size())
    throw_user("{}: by argument {}, and there are {}", what, n, ranges.args.size());
  const auto [begin, end] = ranges.args[n];
  if (end != begin + 1)
    throw_user("{}: argument {} holds {} tensors; a Jacobian is by one Tensor", what, n,
               end - begin);
  return begin;
}

Tensor jacobian(Trace trace, std::span<const Tensor> leaves, size_t arg, bool forward) {
  Graph& graph = trace.graph;
  const size_t outputs = graph.functions[0].result_types.size();
  if (outputs != 1)
    throw_user("{}: the function returns {} tensors; a Jacobian is of one Tensor",
               forward ? "jacfwd" : "jacrev", outputs);
  const Type input = graph.functions[0].arg_types[arg];
  const Type output = graph.functions[0].result_types.at(0);
  if (!is_differentiable(input) || !is_differentiable(output))
    throw_user("a Jacobian of {} by {}: both must be floats or complex numbers", to_string(output),
               to_string(input));
  std::vector<Tensor> args = with_captures(leaves, trace);
  const size_t values = graph.functions[0].result_types.size();
  const std::vector<size_t> smooth = smooth_results(graph.functions[0]);
  const Type& basis = forward ? input : output;
  const int64_t n = num_elements(basis.shape);
  Shape batched{n};
  batched.insert(batched.end(), basis.shape.begin(), basis.shape.end());
  VmapOptions options;
  options.size = n;
  options.in_dims.assign(args.size(), std::nullopt);
  options.in_dims.push_back(0);
  args.push_back(reshape(eye(n, std::nullopt, basis.dtype), batched));
  const DiffOptions by{{arg}, {}, true};
  const std::string name =
      forward ? cleave::jvp(graph, "main", by) : cleave::vjp(graph, "main", by);
  options.out_dims.assign(values, std::nullopt);
  if (forward) {
    for (size_t i = 0; i < smooth.size(); ++i) options.out_dims.emplace_back(0);
  } else {
    for (size_t i = 1; i < smooth.size(); ++i) {
      // Further results do not count.
      options.in_dims.emplace_back(std::nullopt);
      const Type& type = graph.functions[0].result_types[smooth[i]];
      args.push_back(zeros(type.shape, type.dtype));
    }
    options.out_dims.emplace_back(0);
  }
  options.verified = true;
  const std::string many = vmap(graph, name, options);
  const Tensor matrix = run(graph, many, args)[values];
  Shape shape = output.shape;
  shape.insert(shape.end(), input.shape.begin(), input.shape.end());
  if (!forward) return reshape(matrix, shape);
  std::vector<int64_t> order;
  for (int64_t d = 1; d < matrix.rank(); ++d) order.push_back(d);
  order.push_back(0);
  return reshape(transpose(matrix, order), shape);
}

}  // namespace cleave::grad_detail
