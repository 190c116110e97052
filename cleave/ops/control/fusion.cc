#include "cleave/ops/control/family.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"

// A piece of a graph that is computed in one pass over cache-sized blocks where it is compiled
// (cleave/compile), and op by op elsewhere. Its region takes the operands and returns the results.
namespace cleave {
namespace {

std::vector<Type> infer_fusion(const Graph& graph, const Node& node) {
  require(node.regions.size() == 1, node, "has {} regions, not one", node.regions.size());
  const Region& body = graph.region(node.regions[0]);
  require(!body.nodes.empty(), node, "the region is empty");
  std::vector<Type> types;
  for (ValueId value : graph.node(body.nodes.back()).operands) types.push_back(graph.type(value));
  return types;
}

void verify_fusion(const Graph& graph, const Node& node) {
  const Region& body = graph.region(node.regions[0]);
  require(body.args.size() == node.operands.size(), node,
          "the region takes {} arguments, the op {} operands", body.args.size(),
          node.operands.size());
  for (size_t i = 0; i < body.args.size(); ++i)
    require(graph.type(body.args[i]) == graph.operand_type(node, i), node,
            "argument {} of the region is {}, the operand {}", i,
            to_string(graph.type(body.args[i])), to_string(graph.operand_type(node, i)));
}

std::vector<Array> eval_fusion(EvalContext& context, const Node& node,
                               std::span<const Array> args) {
  return context.run_region(node.regions[0], args);
}

}  // namespace

void register_fusion_ops(OpRegistry& registry) {
  registry.add({.name = "cleave.fusion",
                .traits = kPure,
                .infer = infer_fusion,
                .verify = verify_fusion,
                .eval = eval_fusion});
}

}  // namespace cleave
