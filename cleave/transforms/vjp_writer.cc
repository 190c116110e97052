#include "cleave/transforms/vjp_writer.h"

#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/record.h"
#include "cleave/transforms/jvp_writer.h"

namespace cleave {
namespace {

Graph custom_rules(const Node& node) {
  Graph rules = parse_module(node.attrs.get_string(kCustomVjpRules), "<custom_vjp>");
  if (!rules.find_function("fwd") || !rules.find_function("bwd"))
    throw_user("custom_vjp: the functions @fwd and @bwd are missing");
  return rules;
}

// The results of the `keep`s of a checkpoint's body; those of a checkpoint inside it are its own.
std::vector<ValueId> keep_marks(const Graph& graph, RegionId body) {
  std::vector<ValueId> marks;
  for (NodeId id : graph.region(body).nodes)
    if (is_named(graph.node(id), kKeep)) marks.push_back(graph.node(id).results[0]);
  return marks;
}

}  // namespace

void VjpWriter::forward(RegionId source, RegionId target) {
  const std::vector<NodeId> nodes = graph_.region(source).nodes;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) forward_node(nodes[i], target);
}

void VjpWriter::backward(RegionId source, RegionId target) {
  const std::vector<NodeId> nodes = graph_.region(source).nodes;
  for (size_t i = nodes.size() - 1; i-- > 0;) backward_node(nodes[i], target);
}

void VjpWriter::accumulate(ValueId source, ValueId cotangent, RegionId target) {
  if (!cotangent.valid() || !active_(source)) return;
  const ValueId before = cotangent_[source];
  if (!before.valid()) return cotangent_.set(source, cotangent);
  GraphBuilder b(graph_, target);
  cotangent_.set(source, b.emit("stablehlo.add", {before, cotangent}));
}

ValueId VjpWriter::cotangent_or_zeros(ValueId source, RegionId target) {
  if (const ValueId found = cotangent_[source]; found.valid()) return found;
  GraphBuilder b(graph_, target);
  const Type type = graph_.type(source);
  return b.constant(0, type.dtype, type.shape);
}

bool VjpWriter::has_cotangent(const Node& node) const {
  for (ValueId result : node.results)
    if (cotangent_[result].valid()) return true;
  return false;
}

std::vector<ValueId> VjpWriter::active_captures(const std::vector<RegionId>& regions) const {
  std::vector<ValueId> captures = captured_values(graph_, regions);
  std::erase_if(captures, [&](ValueId id) { return !active_(id); });
  return captures;
}

std::vector<ValueId> VjpWriter::take(const std::vector<ValueId>& values) {
  std::vector<ValueId> saved;
  for (ValueId value : values) {
    saved.push_back(cotangent_[value]);
    cotangent_.set(value, {});
  }
  return saved;
}

void VjpWriter::give_back(const std::vector<ValueId>& values, const std::vector<ValueId>& saved) {
  for (size_t i = 0; i < values.size(); ++i) cotangent_.set(values[i], saved[i]);
}

void VjpWriter::forward_node(NodeId id, RegionId target) {
  const Node node = graph_.node(id);
  const bool active = active_.any_result(node);
  if (active && flow_of(node) == Flow::Scan) return forward_scan(id, target);
  if (active && is_named(node, kCustomVjp)) {
    const Graph rules = custom_rules(node);
    std::vector<ValueId> results =
        splice(rules, *rules.find_function("fwd"), graph_, target, primal.map(node.operands));
    for (size_t i = 0; i < node.results.size(); ++i) primal.set(node.results[i], results[i]);
    results.erase(results.begin(), results.begin() + static_cast<ptrdiff_t>(node.results.size()));
    residuals_[id] = std::move(results);
    return;
  }
  if (active && is_named(node, kCheckpoint)) return forward_checkpoint(id, node, target);
  if (is_named(node, kKeep)) {
    const ValueId kept = kept_[node.results[0]];
    return primal.set(node.results[0], kept.valid() ? kept : primal.map(node.operands[0]));
  }
  copy_closed(graph_, id, target, primal);
}

void VjpWriter::backward_node(NodeId id, RegionId target) {
  const Node node = graph_.node(id);
  if (!active_.any_result(node) || !has_cotangent(node)) return;
  switch (flow_of(node)) {
    case Flow::Scan:
      return backward_scan(id, target);
    case Flow::Branches:
      return backward_branches(node, target);
    case Flow::Manual:
      return backward_manual(node, target);
    case Flow::Named:
      if (is_named(node, kCheckpoint)) return backward_checkpoint(id, node, target);
      if (is_named(node, kKeep))
        return accumulate(node.operands[0], cotangent_[node.results[0]], target);
      if (is_named(node, kCustomVjp)) return backward_custom(id, node, target);
      break;
    case Flow::Loop:
      throw_user(
          "stablehlo.while: has a reverse derivative only where the number of its iterations is "
          "known (a counter from a constant to a constant by a constant step); use scan, or "
          "forward mode (jvp)");
    case Flow::None:
    case Flow::Barrier:
    case Flow::Call:
      break;
  }
  backward_by_rule(node, target);
}

void VjpWriter::backward_by_rule(const Node& node, RegionId target) {
  if (!node.def->vjp) throw_no_rule(graph_, node, "reverse");
  const std::vector<ValueId> operands = primal.map(node.operands);
  const std::vector<ValueId> results = primal.map(node.results);
  std::vector<ValueId> cotangents;
  for (ValueId result : node.results) cotangents.push_back(cotangent_[result]);
  std::vector<bool> wanted;
  for (ValueId operand : node.operands) wanted.push_back(active_(operand));
  GraphBuilder b(graph_, target);
  const std::vector<ValueId> made = node.def->vjp(
      {.b = b, .node = node, .operands = operands, .results = results, .wanted = &wanted},
      cotangents);
  internal_check(made.size() == operands.size(), "a reverse rule gives one cotangent per operand");
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].valid() || !wanted[i]) continue;
    if (graph_.type(made[i]).shape != graph_.type(operands[i]).shape ||
        graph_.type(made[i]).dtype != graph_.type(operands[i]).dtype)
      throw InternalError(node.name() + ": the reverse rule gives " +
                          to_string(graph_.type(made[i])) + " as the cotangent of " +
                          to_string(graph_.type(operands[i])));
    accumulate(node.operands[i], made[i], target);
  }
}

// ---- branches: the same branch again, forwards and then backwards

void VjpWriter::backward_branches(const Node& node, RegionId target) {
  const std::vector<ValueId> captures = active_captures(node.regions);
  std::vector<Type> types;
  for (ValueId capture : captures) types.push_back(graph_.type(capture));
  const NodeId back =
      graph_.add_node(node.name(), primal.map(node.operands), std::move(types), node.attrs);
  graph_.node(back).attrs.erase("sdy.sharding");
  const std::vector<ValueId> saved = take(captures);
  for (RegionId branch : node.regions) {
    const RegionId inner = graph_.add_region(back);
    forward(branch, inner);
    const std::vector<ValueId> out = graph_.node(graph_.terminator(branch)).operands;
    for (size_t i = 0; i < out.size(); ++i) accumulate(out[i], cotangent_[node.results[i]], inner);
    backward(branch, inner);
    std::vector<ValueId> results;
    for (ValueId capture : captures) results.push_back(cotangent_or_zeros(capture, inner));
    take(captures);
    end_region(graph_, inner, "stablehlo.return", std::move(results));
  }
  give_back(captures, saved);
  graph_.append(target, back);
  const std::vector<ValueId> results = graph_.node(back).results;
  for (size_t i = 0; i < captures.size(); ++i) accumulate(captures[i], results[i], target);
}

// ---- checkpoint: the values again, behind a barrier that ties them to the cotangents, so that
// nobody takes them for the first ones. Values marked by `keep` pass the barrier as well; what led
// to them is computed again only if another value needs it, and is dead otherwise.

void VjpWriter::forward_checkpoint(NodeId id, const Node& node, RegionId target) {
  const RegionId body = node.regions[0];
  const std::vector<ValueId> args = graph_.region(body).args;
  for (size_t i = 0; i < args.size(); ++i) primal.set(args[i], primal.map(node.operands[i]));
  forward(body, target);
  const std::vector<ValueId> out = primal.map(graph_.node(graph_.terminator(body)).operands);
  for (size_t i = 0; i < out.size(); ++i) primal.set(node.results[i], out[i]);
  std::vector<ValueId>& kept = residuals_[id];
  kept.clear();
  for (ValueId mark : keep_marks(graph_, body)) kept.push_back(primal.map(mark));
}

void VjpWriter::backward_checkpoint(NodeId id, const Node& node, RegionId target) {
  const RegionId body = node.regions[0];
  const std::vector<ValueId> args = graph_.region(body).args;
  const std::vector<ValueId> marks = keep_marks(graph_, body);
  std::vector<ValueId> through = primal.map(node.operands);
  const std::vector<ValueId>& kept = residuals_.at(id);
  through.insert(through.end(), kept.begin(), kept.end());
  for (ValueId result : node.results)
    if (cotangent_[result].valid()) through.push_back(cotangent_[result]);
  GraphBuilder b(graph_, target);
  const std::vector<ValueId> passed = b.emit_all("stablehlo.optimization_barrier", through);
  for (size_t i = 0; i < args.size(); ++i) primal.set(args[i], passed[i]);
  for (size_t i = 0; i < marks.size(); ++i) kept_.set(marks[i], passed[args.size() + i]);
  size_t next = args.size() + marks.size();
  std::vector<ValueId> incoming;
  for (ValueId result : node.results)
    incoming.push_back(cotangent_[result].valid() ? passed[next++] : ValueId{});
  forward(body, target);
  for (ValueId mark : marks) kept_.set(mark, {});
  const std::vector<ValueId> out = graph_.node(graph_.terminator(body)).operands;
  for (size_t i = 0; i < out.size(); ++i) accumulate(out[i], incoming[i], target);
  backward(body, target);
  for (size_t i = 0; i < args.size(); ++i)
    accumulate(node.operands[i], cotangent_[args[i]], target);
}

// ---- custom_vjp: bwd(residuals..., cotangents...) -> cotangents of all differentiable operands

void VjpWriter::backward_custom(NodeId id, const Node& node, RegionId target) {
  std::vector<ValueId> operands = residuals_.at(id);
  for (ValueId result : node.results)
    if (is_differentiable(graph_.type(result)))
      operands.push_back(cotangent_or_zeros(result, target));
  const Graph rules = custom_rules(node);
  const Function& bwd = *rules.find_function("bwd");
  if (bwd.arg_types.size() != operands.size())
    throw_user("custom_vjp: the backward function takes {} values, and there are {}",
               bwd.arg_types.size(), operands.size());
  const std::vector<ValueId> made = splice(rules, bwd, graph_, target, operands);
  size_t next = 0;
  for (ValueId operand : node.operands) {
    if (!is_differentiable(graph_.type(operand))) continue;
    if (next >= made.size() || graph_.type(made[next]) != graph_.type(operand))
      throw_user("custom_vjp: the backward function gives {} as the cotangent of {}",
                 next < made.size() ? to_string(graph_.type(made[next])) : "nothing",
                 to_string(graph_.type(operand)));
    accumulate(operand, made[next++], target);
  }
}

}  // namespace cleave
