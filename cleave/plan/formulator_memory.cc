#include <algorithm>

#include "cleave/analyze/kernel_memory.h"
#include "cleave/analyze/kernels.h"
#include "cleave/graph/op_def.h"
#include "cleave/plan/formulator.h"

namespace cleave::plan {

void Formulator::hold_as_executed() {
  std::vector<Version>& versions = out_.versions;
  std::vector<std::vector<int>> of(graph_.num_values());  // versions by value
  for (size_t v = 0; v < versions.size(); ++v)
    of[versions[v].value.index].push_back(static_cast<int>(v));
  // Backwards: whoever uses what an op does not write needs the op's operands there.
  for (size_t o = out_.ops.size(); o-- > 0;) {
    const FormulatedOp& op = out_.ops[o];
    const Node& node = graph_.node(op.node);
    if (!analyze::has_kernel_use(node)) continue;
    if (flow_of(node) == Flow::Loop) hold_carries(op, of);
    if (flow_of(node) == Flow::Loop || flow_of(node) == Flow::Branches) continue;
    int last = -1;
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (analyze::kernel_writes(node, i) > 0) continue;
      for (int v : of[node.results[i].index]) {
        const bool is_copy = versions[v].source >= 0 && !versions[v].alias.empty();
        if (!is_copy) versions[v].takes_memory = false;
        last = std::max(last, versions[v].last);
      }
    }
    for (int operand : op.operands)
      for (int v = operand; v >= 0 && last >= 0; v = versions[v].source)
        versions[v].last = std::max(versions[v].last, last);
  }
  hold_in_place(of);
  for (size_t i = 0; i < donated_.size(); ++i) {
    Version& argument = versions[out_.argument_versions[i]];
    if (donated_[i] && argument.last > argument.first && argument.last < out_.end())
      --argument.last;
  }
  const Function& function = *graph_.find_function(options_.entry);
  if (analyze::is_marked(graph_, function.body)) hold_beside(function, of);
}

// Carries of a loop are there until it ends. What it passes on as it is has no memory of its own,
// and is held as long as the result of the loop.
void Formulator::hold_carries(const FormulatedOp& op, const std::vector<std::vector<int>>& of) {
  const Node& node = graph_.node(op.node);
  const int end = position(graph_.terminator(loop_of(node)->body));
  for (size_t i = 0; i < node.results.size() && i < op.operands.size(); ++i) {
    const bool passes = analyze::is_passed_on(graph_, node, i);
    int last = end;
    for (int v : of[node.results[i].index]) {
      Version& version = out_.versions[v];
      if (version.source < 0) version.last = std::max(version.last, end);
      if (version.source < 0 && passes) version.takes_memory = false;
      last = std::max(last, version.last);
    }
    for (int v = op.operands[i]; v >= 0 && passes; v = out_.versions[v].source)
      out_.versions[v].last = std::max(out_.versions[v].last, last);
  }
}

// A result in the place of an operand that ends there. What a loop carries is in place already.
void Formulator::hold_in_place(const std::vector<std::vector<int>>& of) {
  std::vector<Version>& versions = out_.versions;
  std::vector<bool> is_carried(graph_.num_values());
  for (const FormulatedOp& op : out_.ops) {
    const Node& node = graph_.node(op.node);
    if (op.operands.empty()) continue;
    if (const std::optional<LoopRegions> loop = loop_of(node)) {
      for (ValueId carried : graph_.region(loop->body).args) is_carried[carried.index] = true;
      continue;
    }
    if (!analyze::is_in_place(node)) continue;
    Version& operand = versions[op.operands[0]];
    if (operand.last != op.position) continue;
    if (is_carried[operand.value.index] && operand.source < 0) {
      is_carried[node.results[0].index] = true;
      for (int v : of[node.results[0].index])
        if (versions[v].source < 0) versions[v].takes_memory = false;
    } else if (graph_.value(operand.value).producer.valid() && operand.takes_memory) {
      --operand.last;
    }
  }
}

// What kernels hold beside operands and results, and results that are there sooner than their ops.
void Formulator::hold_beside(const Function& function, const std::vector<std::vector<int>>& of) {
  auto begin = [&](ValueId value, int position) {
    for (int v : of[value.index])
      if (graph_.value(value).producer.valid() && out_.versions[v].source < 0)
        out_.versions[v].first = std::min(out_.versions[v].first, position);
  };
  for (ValueId value : analyze::results_apart(graph_, function)) begin(value, 0);
  const std::vector<std::pair<ValueId, NodeId>> filled =
      analyze::filled_early(graph_, function.body);
  const std::vector<ValueId> copied = analyze::reordered_arguments(graph_, function);
  const int64_t devices = layouts_.mesh()->num_devices();
  for (FormulatedOp& op : out_.ops) {
    op.fixed.bytes += analyze::workspace_bytes(graph_.node(op.node), devices);
    for (const auto& [value, place] : filled)
      if (place == op.node) begin(value, op.position);
    for (ValueId argument : copied)
      for (int v : of[argument.index])
        if (op.position <= out_.versions[v].last && out_.versions[v].source < 0)
          op.fixed.bytes += graph_.type(argument).byte_count() / devices;
  }
}

}  // namespace cleave::plan
