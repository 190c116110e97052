#include "cleave/discover/gradient.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/discover/library.h"
#include "cleave/discover/numbers.h"
#include "cleave/graph/graph.h"
#include "cleave/transforms/diff.h"

namespace cleave {
namespace {

// The derivative of "main" as the only function, named "main", without the results of the original.
Graph derivative(Graph graph) {
  const size_t results = graph.find_function("main")->result_types.size();
  const std::string name = vjp(graph, "main");
  std::erase_if(graph.functions, [](const Function& f) { return f.name == "main"; });
  Function& main = *graph.find_function(name);
  main.name = "main";
  Node& end = graph.node(graph.terminator(main.body));
  auto drop = [&](auto& list) {
    list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(results));
  };
  drop(end.operands);
  drop(main.result_types);
  drop(main.result_attrs);
  return graph;
}

}  // namespace

Operator gradient_of(const Operator& op) {
  if (!op.define) throw_user("{} is a black box: its gradient is an operator of its own", op.name);
  const auto define = op.define;
  const std::string shape_attr = op.shape_attr, name = op.name;
  const size_t num_operands = op.samples.front().operands.size();
  CallFn make = [=](const std::vector<TensorDesc>& operands, const AttrMap& attrs) {
    Sample sample{{operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(num_operands)},
                  attrs};
    // On a device the shape of the result is that of its cotangent.
    if (!shape_attr.empty()) sample.attrs[shape_attr] = operands[num_operands].shape;
    Graph graph = derivative(define(sample));
    const std::vector<Type>& types = graph.find_function("main")->arg_types;
    if (types.size() != operands.size())
      throw_user("the gradient of {} takes {} operands, {} given", name, types.size(),
                 operands.size());
    for (size_t i = 0; i < operands.size(); ++i)
      if (types[i].shape != operands[i].shape)
        throw_user("the gradient of {}: a cotangent of <{}> for a result of <{}>", name,
                   to_string(operands[i].shape), to_string(types[i].shape));
    return graph;
  };
  std::vector<Sample> samples;
  for (const Sample& call : op.samples) {
    Sample sample = call;
    const Graph definition = define(call);
    for (const Type& type : definition.find_function("main")->result_types)
      if (has_fractions(type.dtype)) sample.operands.push_back({type.dtype, type.shape});
    if (sample.operands.size() == call.operands.size())
      throw_user("{} has no gradient: its results are not real numbers", name);
    samples.push_back(std::move(sample));
  }
  Operator gradient = operator_with_graph(name + "_gradient", make, std::move(samples));
  gradient.dim_attrs = op.dim_attrs;
  return gradient;
}

}  // namespace cleave
