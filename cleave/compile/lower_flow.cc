#include <set>

#include "cleave/compile/lowering.h"

// Loops, branches and barriers.
namespace cleave {

void Lowering::add_flow(LoweringTable& table) {
  for (const auto& [name, op] : op_registry().ops()) {
    if (op.flow == Flow::Loop) table.set(op, &Lowering::loop);
    if (op.flow == Flow::Branches) table.set(op, &Lowering::branches);
    if (op.flow == Flow::Barrier) table.set(op, &Lowering::barrier);
  }
}

bool Lowering::barrier(const Node& node, CodeBlock&) {
  for (const FlowEdge& edge : flow_edges(graph(), node))
    views_[edge.to.index] = views_[edge.from.index];
  return true;
}

bool Lowering::loop(const Node& node, CodeBlock& block) {
  wait_for_all();
  const LoopRegions regions = *loop_of(node);
  auto step = std::make_unique<WhileStep>();
  step->state = code_.num_states++;
  std::vector<CodeView> carried;
  for (ValueId operand : node.operands) {
    const CodeView& from = views_[operand.index];
    carried.push_back(copy(block, from, fresh(graph().type(operand))));
  }
  const int64_t begin = table_.begin_loop();
  for (RegionId r : {regions.condition, regions.body})
    for (size_t i = 0; i < carried.size(); ++i)
      views_[graph().region(r).args[i].index] = carried[i];
  for (const CodeView& view : carried) table_.touch(view.buffer);
  step->predicate = region(regions.condition, step->condition)[0];
  table_.next_position();
  table_.touch(step->predicate.buffer);
  const std::vector<CodeView> results = region(regions.body, step->body);
  carry(*step, carried, results, begin);
  table_.next_position();
  table_.end_loop(begin);
  for (const CodeView& view : carried) table_.touch(view.buffer);
  for (size_t i = 0; i < carried.size(); ++i) views_[node.results[i].index] = carried[i];
  block.steps.push_back(std::move(step));
  return true;
}

// The values of the next turn come into the buffers of the carried ones: written there at once
// where nobody reads the old ones any more, by trading places otherwise.
void Lowering::carry(WhileStep& step, const std::vector<CodeView>& carried,
                     const std::vector<CodeView>& results, int64_t begin) {
  std::vector<CodeView> next = results;
  std::set<uint32_t> taken;
  for (const CodeView& view : carried) taken.insert(table_.root(view.buffer));
  for (size_t i = 0; i < carried.size(); ++i) {
    const CodeView& from = results[i];
    if (from.buffer == carried[i].buffer && from.is_contiguous() && from.offset == 0) continue;
    const CodeBuffer& b = table_.whole(from.buffer);
    const bool own = b.kind == CodeBuffer::Kind::Arena && b.begin > begin && from.is_contiguous() &&
                     from.offset == 0 && !table_.is_pinned(from.buffer) &&
                     static_cast<int64_t>(b.bytes) == from.num_bytes() &&
                     taken.insert(table_.root(from.buffer)).second;
    if (!own) {
      CodeView temporary = fresh(Type::tensor(from.type.dtype, from.type.shape));
      add(step.body, std::make_unique<CopyStep>(from, temporary), {from}, {temporary});
      next[i] = temporary;
    }
  }
  table_.next_position();
  for (size_t i = 0; i < carried.size(); ++i) {
    const uint32_t a = table_.root(carried[i].buffer), b = table_.root(next[i].buffer);
    if (a == b) continue;
    if (table_.is_dead_before(a, b)) {
      table_.unite(a, b);
      continue;
    }
    table_.rotate(a, b, begin);
    step.rotated.emplace_back(carried[i].buffer, next[i].buffer);
  }
}

bool Lowering::branches(const Node& node, CodeBlock& block) {
  wait_for_all();
  auto step = std::make_unique<CaseStep>();
  step->state = code_.num_states++;
  step->index = views_[node.operands[0].index];
  table_.next_position();
  table_.touch(step->index.buffer);
  std::vector<CodeView> results;
  for (ValueId result : node.results) {
    results.push_back(fresh(graph().type(result)));
    table_.touch(results.back().buffer);
  }
  step->branches.resize(node.regions.size());
  for (size_t r = 0; r < node.regions.size(); ++r) {
    const std::vector<CodeView> returned = region(node.regions[r], step->branches[r]);
    for (size_t i = 0; i < returned.size(); ++i)
      add(step->branches[r], std::make_unique<CopyStep>(returned[i], results[i]), {returned[i]},
          {results[i]});
  }
  table_.next_position();
  for (size_t i = 0; i < results.size(); ++i) {
    table_.touch(results[i].buffer);
    views_[node.results[i].index] = results[i];
  }
  block.steps.push_back(std::move(step));
  return true;
}

}  // namespace cleave
