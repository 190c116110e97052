#include <map>

#include "cleave/graph/flow.h"
#include "cleave/ops/chlo/family.h"
#include "cleave/ops/expansions.h"
#include "cleave/ops/op.h"

// chlo.scan as a loop over the steps: of programs, since derivatives of scans follow from its
// parts.
namespace cleave {
namespace {

class ScanLoop {
 public:
  ScanLoop(GraphBuilder& b, const Node& node, std::span<const ValueId> operands)
      : b_(b),
        graph_(b.graph()),
        node_(node),
        operands_(operands),
        parts_(scan_parts(node)),
        dim_(static_cast<size_t>(node.attrs.get_int("dimension"))),
        steps_(b.shape(operands[0])[dim_]) {}

  // The body becomes that of the loop, between slices of the inputs and updates of the outputs.
  std::vector<ValueId> write() {
    const NodeId loop = add_loop();
    GraphBuilder condition(graph_, graph_.add_region(loop)), body(graph_, graph_.add_region(loop));
    const std::vector<ValueId> start = graph_.node(loop).operands;
    for (ValueId value : start) {
      const Type type = graph_.type(value);
      graph_.add_argument(condition.region(), type);
      graph_.add_argument(body.region(), type);
    }
    const double steps = static_cast<double>(steps_);
    condition.finish(
        {condition.compare("LT", condition.arg(0), condition.constant(steps, DType::I32))});
    zero_ = body.constant(0, DType::I32);
    const ValueId last = body.constant(steps - 1, DType::I32);
    at_ = node_.attrs.get_bool("is_reverse", false)
              ? body.emit("stablehlo.subtract", {last, body.arg(0)})
              : body.arg(0);
    write_body(body);
    graph_.append(b_.region(), loop);
    const std::vector<ValueId> ended = graph_.node(loop).results;
    const auto outputs = ended.begin() + 1 + static_cast<ptrdiff_t>(parts_.carries);
    std::vector<ValueId> results(outputs, ended.end());
    results.insert(results.end(), ended.begin() + 1, outputs);
    return results;
  }

 private:
  // It carries the number of the step, then carries, then outputs.
  NodeId add_loop() {
    std::vector<ValueId> start = {b_.constant(0, DType::I32)};
    for (size_t i = 0; i < parts_.carries; ++i) start.push_back(operands_[parts_.inputs + i]);
    for (size_t i = 0; i < parts_.outputs; ++i) {
      const Type type = graph_.type(node_.results[i]);
      start.push_back(b_.constant(0, type.dtype, type.shape));
    }
    std::vector<Type> types;
    for (ValueId value : start) types.push_back(graph_.type(value));
    return graph_.add_node("stablehlo.while", start, types);
  }

  void write_body(GraphBuilder& body) {
    const RegionId from = node_.regions[0];
    std::map<ValueId, ValueId> mapped;
    const std::vector<ValueId> args = graph_.region(from).args;
    for (size_t i = 0; i < parts_.inputs; ++i) mapped[args[i]] = slice_of_input(body, i, args[i]);
    for (size_t i = 0; i < parts_.carries; ++i) mapped[args[parts_.inputs + i]] = body.arg(1 + i);
    const std::vector<NodeId> nodes = graph_.region(from).nodes;
    graph_.walk(from, [&](NodeId id) {
      for (ValueId& operand : graph_.node(id).operands)
        if (const auto it = mapped.find(operand); it != mapped.end()) operand = it->second;
    });
    for (size_t i = 0; i + 1 < nodes.size(); ++i) graph_.append(body.region(), nodes[i]);
    const std::vector<ValueId> returned = graph_.node(nodes.back()).operands;
    std::vector<ValueId> next = {
        body.emit("stablehlo.add", {body.arg(0), body.constant(1, DType::I32)})};
    for (size_t i = 0; i < parts_.carries; ++i) next.push_back(returned[parts_.outputs + i]);
    for (size_t i = 0; i < parts_.outputs; ++i)
      next.push_back(updated_output(body, i, returned[i]));
    body.finish(next);
  }

  // Operands that say where the step is, after those of an op on a slice.
  std::vector<ValueId> at_step(std::vector<ValueId> operands, size_t rank) const {
    for (size_t d = 0; d < rank; ++d) operands.push_back(d == dim_ ? at_ : zero_);
    return operands;
  }
  ValueId slice_of_input(GraphBuilder& body, size_t i, ValueId arg) {
    Shape sizes = b_.shape(operands_[i]);
    sizes[dim_] = 1;
    AttrDict attrs;
    attrs.set("slice_sizes", ints_attr(sizes));
    const ValueId part =
        body.emit("stablehlo.dynamic_slice", at_step({operands_[i]}, sizes.size()), attrs);
    return body.reshape(part, graph_.type(arg).shape);
  }
  ValueId updated_output(GraphBuilder& body, size_t i, ValueId part) {
    Shape sizes = graph_.type(node_.results[i]).shape;
    sizes[dim_] = 1;
    const ValueId before = body.arg(1 + parts_.carries + i);
    return body.emit("stablehlo.dynamic_update_slice",
                     at_step({before, body.reshape(part, sizes)}, sizes.size()));
  }

  GraphBuilder& b_;
  Graph& graph_;
  const Node& node_;
  std::span<const ValueId> operands_;
  ScanParts parts_;
  size_t dim_;
  int64_t steps_;
  ValueId zero_, at_;  // of the body
};

std::vector<ValueId> expand_scan(GraphBuilder& b, const Node& node,
                                 std::span<const ValueId> operands, ExpandUse) {
  const Graph& graph = b.graph();
  bool moves = true;  // no node of the body is known by its place
  graph.walk(node.regions[0], [&](NodeId id) {
    const OpDef* def = graph.node(id).def;
    moves = moves && !def->opaque && !def->has(kCollective) && !is<op::Transfer>(graph.node(id));
  });
  return moves ? ScanLoop(b, node, operands).write() : std::vector<ValueId>{};
}

}  // namespace

void add_scan_expansion(OpRegistry& r) { set_expansion(r, "chlo.scan", expand_scan, kInPrograms); }

}  // namespace cleave
