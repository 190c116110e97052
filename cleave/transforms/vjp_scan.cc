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
    if (!node.def || !node.regions.empty()) return false;
    if (node.def->has(kConstantLike)) return true;
    if (!node.def->has(kViewLike) && !is<op::BroadcastInDim>(node)) return false;
    return std::ranges::all_of(node.operands, [&](ValueId operand) {
      return !inside_.contains(operand) || (*this)(operand);
    });
  }

 private:
  const Graph& graph_;
  const std::set<ValueId>& inside_;
};

}  // namespace

void VjpWriter::forward_scan(NodeId id, RegionId target) {
  const Node node = graph_.node(id);
  const ScanParts parts = scan_parts(node);
  const RegionId body = node.regions[0];
  const std::vector<ValueId> args = graph_.region(body).args;
  const std::vector<ValueId> out = graph_.node(graph_.terminator(body)).operands;

  // Both parts of the body in one region, for a while.
  const RegionId scratch = graph_.add_region();
  for (ValueId arg : args) {
    const Type type = graph_.type(arg);
    primal.set(arg, graph_.add_argument(scratch, type));
  }
  const std::vector<ValueId> forward_args = graph_.region(scratch).args;
  forward(body, scratch);
  const size_t split = graph_.region(scratch).nodes.size();

  SavedScan saved;
  saved.is_reverse = !node.attrs.get_bool("is_reverse", false);
  std::vector<ValueId> output_cotangents, carry_cotangents;
  const std::vector<ValueId> captures = active_captures({body});
  const std::vector<ValueId> outer = take(captures);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool carried = i >= parts.outputs;
    const ValueId arg = carried ? args[parts.inputs + i - parts.outputs] : ValueId{};
    if (carried ? !active_(arg) : !active_(node.results[i])) continue;
    const Type type = graph_.type(out[i]);
    const ValueId incoming = graph_.add_argument(scratch, type);
    (carried ? saved.carries : saved.outputs).push_back(node.results[i]);
    (carried ? carry_cotangents : output_cotangents).push_back(incoming);
    accumulate(out[i], incoming, scratch);
  }
  backward(body, scratch);
  for (size_t i = 0; i < args.size(); ++i) {
    if (!active_(args[i])) continue;
    const bool carried = i >= parts.inputs;
    (carried ? saved.body.carries : saved.body.outputs)
        .push_back(cotangent_or_zeros(args[i], scratch));
    (carried ? saved.carry_operands : saved.inputs).push_back(node.operands[i]);
  }
  // Sums of what values from outside get, carried along.
  std::vector<ValueId> sums;
  for (ValueId capture : captures) {
    const ValueId part = cotangent_[capture];
    if (!part.valid()) continue;
    const Type type = graph_.type(capture);
    const ValueId sum = graph_.add_argument(scratch, type);
    GraphBuilder b(graph_, scratch);
    saved.body.carries.push_back(b.emit("stablehlo.add", {sum, part}));
    sums.push_back(sum);
    saved.captures.push_back(capture);
  }
  give_back(captures, outer);

  const std::vector<NodeId> nodes = graph_.region(scratch).nodes;
  ScanBody first;
  first.args = forward_args;
  first.nodes.assign(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(split));
  std::vector<NodeId> back(nodes.begin() + static_cast<ptrdiff_t>(split), nodes.end());

  // What the backward part takes from the forward part.
  std::set<ValueId> inside(forward_args.begin(), forward_args.end());
  for (NodeId n : first.nodes)
    for (ValueId result : graph_.node(n).results) inside.insert(result);
  std::vector<ValueId> needed = captured_by_nodes(graph_, back);
  for (const std::vector<ValueId>* list : {&saved.body.outputs, &saved.body.carries})
    for (ValueId value : *list)
      if (std::ranges::find(needed, value) == needed.end()) needed.push_back(value);
  const Cheap cheap(graph_, inside);
  ValueTable here;
  Cloner clone(graph_, &here);
  std::vector<NodeId> again;
  auto make_again = [&](auto& self, ValueId value) -> void {
    if (here[value].valid()) return;
    const NodeId producer = graph_.value(value).producer;
    const std::vector<ValueId> operands = graph_.node(producer).operands;
    for (ValueId operand : operands)
      if (inside.contains(operand)) self(self, operand);
    again.push_back(clone.shell(producer));
  };
  std::vector<ValueId> back_args, kept_slices;
  for (ValueId value : needed) {
    if (!inside.contains(value)) continue;
    if (cheap(value)) {
      make_again(make_again, value);
      continue;
    }
    const Type type = graph_.type(value);
    const ValueId slice = graph_.add_argument(scratch, type);
    here.set(value, slice);
    back_args.push_back(slice);
    kept_slices.push_back(value);
  }

  // The forward scan, with what is kept. Slices of inputs are there already.
  for (size_t i = 0; i < out.size(); ++i)
    (i < parts.outputs ? first.outputs : first.carries).push_back(primal.map(out[i]));
  std::vector<size_t> input_of(kept_slices.size(), SIZE_MAX);
  for (size_t i = 0; i < kept_slices.size(); ++i) {
    const auto it = std::ranges::find(forward_args, kept_slices[i]);
    if (it != forward_args.end() &&
        it - forward_args.begin() < static_cast<ptrdiff_t>(parts.inputs))
      input_of[i] = static_cast<size_t>(it - forward_args.begin());
    else
      first.outputs.push_back(kept_slices[i]);
  }
  std::vector<ValueId> inputs, carries;
  for (size_t i = 0; i < node.operands.size(); ++i)
    (i < parts.inputs ? inputs : carries).push_back(primal.map(node.operands[i]));
  const size_t num_outputs = first.outputs.size();
  GraphBuilder b(graph_, target);
  const std::vector<ValueId> values =
      write_scan(b, inputs, carries, std::move(first), !saved.is_reverse);
  for (size_t i = 0; i < parts.outputs; ++i) primal.set(node.results[i], values[i]);
  for (size_t i = 0; i < parts.carries; ++i)
    primal.set(node.results[parts.outputs + i], values[num_outputs + i]);
  size_t next = parts.outputs;
  for (size_t input : input_of)
    saved.kept.push_back(input == SIZE_MAX ? values[next++] : inputs[input]);

  // The backward body.
  for (NodeId n : back) replace_operands(graph_, n, here);
  saved.body.outputs = here.map(saved.body.outputs);
  saved.body.carries = here.map(saved.body.carries);
  saved.body.nodes = std::move(again);
  saved.body.nodes.insert(saved.body.nodes.end(), back.begin(), back.end());
  saved.body.args = std::move(back_args);
  for (const auto* list : {&output_cotangents, &carry_cotangents, &sums})
    saved.body.args.insert(saved.body.args.end(), list->begin(), list->end());
  scans_[id] = std::move(saved);
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
