#include <algorithm>
#include <set>

#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"
#include "cleave/transforms/vjp_writer.h"

// The reverse derivative of a scan is a scan from the other end. Its body needs values of the
// forward body: those are kept, one for each step, as further outputs of the forward scan.
namespace cleave {
namespace {

// Values that cost nothing to make again: constants, and views of them or of values from outside.
class Cheap {
 public:
  Cheap(const Graph& graph, const std::set<ValueId>& inside) : graph_(graph), inside_(inside) {}

  bool operator()(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    if (!producer.valid()) return false;
    const Node& node = graph_.node(producer);
    if (!node.regions.empty()) return false;
    if (node.def->has(kConstantLike)) return true;
    if (!node.def->has(kViewLike)) return false;
    return std::ranges::all_of(node.operands, [&](ValueId operand) {
      return !inside_.contains(operand) || (*this)(operand);
    });
  }

 private:
  const Graph& graph_;
  const std::set<ValueId>& inside_;
};

// What the backward part of a body takes from the forward part: values that are cheap are made
// again, others are kept for each step.
struct FromForward {
  ValueTable here;            // by value of the forward part, its counterpart in the backward part
  std::vector<NodeId> again;  // nodes that make cheap values, in order
  std::vector<ValueId> kept;  // values of the forward part that are kept
  std::vector<ValueId> args;  // for each of them, an argument of the backward part

  FromForward(Graph& graph, RegionId scratch, const std::vector<ValueId>& forward_args,
              const std::vector<NodeId>& forward_nodes, const std::vector<ValueId>& needed) {
    std::set<ValueId> inside(forward_args.begin(), forward_args.end());
    for (NodeId n : forward_nodes)
      for (ValueId result : graph.node(n).results) inside.insert(result);
    const Cheap cheap(graph, inside);
    Cloner clone(graph, &here);
    auto make_again = [&](auto& self, ValueId value) -> void {
      if (here[value].valid()) return;
      const NodeId producer = graph.value(value).producer;
      const std::vector<ValueId> operands = graph.node(producer).operands;
      for (ValueId operand : operands)
        if (inside.contains(operand)) self(self, operand);
      again.push_back(clone.shell(producer));
    };
    for (ValueId value : needed) {
      if (!inside.contains(value)) continue;
      if (cheap(value)) {
        make_again(make_again, value);
        continue;
      }
      const Type type = graph.type(value);
      args.push_back(graph.add_argument(scratch, type));
      here.set(value, args.back());
      kept.push_back(value);
    }
  }
};

}  // namespace

// A scan whose body is written, forwards and backwards, into one region.
struct VjpWriter::OpenScan {
  Node node;
  ScanParts parts;
  std::vector<ValueId> args, out;  // of the body that is read
  RegionId scratch;
  std::vector<ValueId> forward_args = {};
  size_t split = 0;  // the number of nodes of the forward part
  // Arguments of the backward part: cotangents of outputs and of carries, sums for captures.
  std::vector<ValueId> output_cotangents = {}, carry_cotangents = {}, sums = {};
};

void VjpWriter::forward_scan(NodeId id, RegionId target) {
  const Node node = graph_.node(id);
  const RegionId body = node.regions[0];
  OpenScan scan{node, scan_parts(node), graph_.region(body).args, returned_values(graph_, body),
                graph_.add_region()};
  SavedScan saved;
  saved.is_reverse = !node.attrs.get_bool("is_reverse", false);
  write_both_parts(scan, saved);

  const std::vector<NodeId> nodes = graph_.region(scan.scratch).nodes;
  const auto middle = nodes.begin() + static_cast<ptrdiff_t>(scan.split);
  ScanBody first;
  first.args = scan.forward_args;
  first.nodes.assign(nodes.begin(), middle);
  const std::vector<NodeId> back(middle, nodes.end());
  std::vector<ValueId> needed = captured_by_nodes(graph_, back);
  for (const std::vector<ValueId>* list : {&saved.body.outputs, &saved.body.carries})
    for (ValueId value : *list)
      if (std::ranges::find(needed, value) == needed.end()) needed.push_back(value);
  FromForward taken(graph_, scan.scratch, scan.forward_args, first.nodes, needed);
  saved.kept = write_forward_scan(scan, std::move(first), taken.kept, !saved.is_reverse, target);

  // The backward body.
  for (NodeId n : back) replace_operands(graph_, n, taken.here);
  saved.body.outputs = taken.here.map(saved.body.outputs);
  saved.body.carries = taken.here.map(saved.body.carries);
  saved.body.nodes = std::move(taken.again);
  saved.body.nodes.insert(saved.body.nodes.end(), back.begin(), back.end());
  saved.body.args = std::move(taken.args);
  for (const auto* list : {&scan.output_cotangents, &scan.carry_cotangents, &scan.sums})
    saved.body.args.insert(saved.body.args.end(), list->begin(), list->end());
  scans_[id] = std::move(saved);
}

void VjpWriter::write_both_parts(OpenScan& scan, SavedScan& saved) {
  const RegionId body = scan.node.regions[0], scratch = scan.scratch;
  for (ValueId arg : scan.args) {
    const Type type = graph_.type(arg);
    primal.set(arg, graph_.add_argument(scratch, type));
  }
  scan.forward_args = graph_.region(scratch).args;
  forward(body, scratch);
  scan.split = graph_.region(scratch).nodes.size();

  const std::vector<ValueId> captures = active_captures({body});
  const std::vector<ValueId> outer = take(captures);
  for (size_t i = 0; i < scan.out.size(); ++i) {
    const bool carried = i >= scan.parts.outputs;
    const ValueId source =
        carried ? scan.args[scan.parts.inputs + i - scan.parts.outputs] : scan.node.results[i];
    if (!active_(source)) continue;
    const Type type = graph_.type(scan.out[i]);
    const ValueId incoming = graph_.add_argument(scratch, type);
    (carried ? saved.carries : saved.outputs).push_back(scan.node.results[i]);
    (carried ? scan.carry_cotangents : scan.output_cotangents).push_back(incoming);
    accumulate(scan.out[i], incoming, scratch);
  }
  backward(body, scratch);
  for (size_t i = 0; i < scan.args.size(); ++i) {
    if (!active_(scan.args[i])) continue;
    const bool carried = i >= scan.parts.inputs;
    (carried ? saved.body.carries : saved.body.outputs)
        .push_back(cotangent_or_zeros(scan.args[i], scratch));
    (carried ? saved.carry_operands : saved.inputs).push_back(scan.node.operands[i]);
  }
  // Sums of what values from outside get, carried along.
  for (ValueId capture : captures) {
    const ValueId part = cotangent_[capture];
    if (!part.valid()) continue;
    const Type type = graph_.type(capture);
    const ValueId sum = graph_.add_argument(scratch, type);
    GraphBuilder b(graph_, scratch);
    saved.body.carries.push_back(b.emit("stablehlo.add", {sum, part}));
    scan.sums.push_back(sum);
    saved.captures.push_back(capture);
  }
  give_back(captures, outer);
}

std::vector<ValueId> VjpWriter::write_forward_scan(const OpenScan& scan, ScanBody body,
                                                   const std::vector<ValueId>& kept,
                                                   bool is_reverse, RegionId target) {
  const ScanParts& parts = scan.parts;
  for (size_t i = 0; i < scan.out.size(); ++i)
    (i < parts.outputs ? body.outputs : body.carries).push_back(primal.map(scan.out[i]));
  // Slices of inputs are there already.
  std::vector<size_t> input_of(kept.size(), SIZE_MAX);
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto at = static_cast<size_t>(std::ranges::find(scan.forward_args, kept[i]) -
                                        scan.forward_args.begin());
    if (at < parts.inputs)
      input_of[i] = at;
    else
      body.outputs.push_back(kept[i]);
  }
  std::vector<ValueId> inputs, carries;
  for (size_t i = 0; i < scan.node.operands.size(); ++i)
    (i < parts.inputs ? inputs : carries).push_back(primal.map(scan.node.operands[i]));
  const size_t num_outputs = body.outputs.size();
  GraphBuilder b(graph_, target);
  const std::vector<ValueId> values = write_scan(b, inputs, carries, std::move(body), is_reverse);
  for (size_t i = 0; i < parts.outputs; ++i) primal.set(scan.node.results[i], values[i]);
  for (size_t i = 0; i < parts.carries; ++i)
    primal.set(scan.node.results[parts.outputs + i], values[num_outputs + i]);
  std::vector<ValueId> steps;
  size_t next = parts.outputs;
  for (size_t input : input_of) steps.push_back(input == SIZE_MAX ? values[next++] : inputs[input]);
  return steps;
}

void VjpWriter::backward_scan(NodeId id, RegionId target) {
  SavedScan saved = std::move(scans_.at(id));
  scans_.erase(id);
  std::vector<ValueId> inputs = saved.kept, carries;
  for (ValueId output : saved.outputs) inputs.push_back(cotangent_or_zeros(output, target));
  for (ValueId carry : saved.carries) carries.push_back(cotangent_or_zeros(carry, target));
  GraphBuilder b(graph_, target);
  for (ValueId capture : saved.captures) {
    const Type type = graph_.type(capture);
    carries.push_back(b.constant(0, type.dtype, type.shape));
  }
  if (inputs.empty()) {
    // Nothing flows along the steps, but they have to be counted.
    const Node node = graph_.node(id);
    const int64_t steps = graph_.type(node.operands[0]).shape[0];
    inputs.push_back(b.iota(DType::I32, {steps}, 0));
    const RegionId scratch = graph_.add_region();
    saved.body.args.insert(saved.body.args.begin(),
                           graph_.add_argument(scratch, Type::tensor(DType::I32, {})));
  }
  const size_t num_outputs = saved.body.outputs.size();
  const std::vector<ValueId> values =
      write_scan(b, std::move(inputs), std::move(carries), std::move(saved.body), saved.is_reverse);
  for (size_t i = 0; i < num_outputs; ++i) accumulate(saved.inputs[i], values[i], target);
  size_t next = num_outputs;
  for (ValueId operand : saved.carry_operands) accumulate(operand, values[next++], target);
  for (ValueId capture : saved.captures) accumulate(capture, values[next++], target);
}

}  // namespace cleave
