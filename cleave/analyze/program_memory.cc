#include "cleave/analyze/program_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/analyze/kernel_memory.h"
#include "cleave/analyze/kernels.h"
#include "cleave/core/units.h"
#include "cleave/graph/location.h"
#include "cleave/runtime/dry_run.h"

namespace cleave::analyze {
namespace {

std::string label(const Graph& graph, const Node& node) {
  if (!is_transfer(node)) return node.name();
  std::string text = std::string(node.attrs.get_string("cleave.step")) + " " +
                     std::string(node.attrs.get_string("cleave.axes"));
  const NodeId source = graph.value(node.operands[0]).producer;
  if (!source.valid()) return text + " of %" + graph.value(node.operands[0]).name;
  return text + " of " + graph.node(source).name();
}

// What is alive, in words.
class Description {
 public:
  Description(const Program& program, const Instance& instance)
      : program_(program), instance_(instance), classes_(memory_classes(program)) {}

  // A result of a node of the instance, or, if the node is invalid, argument `number`.
  void add(NodeId made_by, size_t number, int64_t bytes, ProgramMemory& memory) const {
    const MemoryHistory::Buffer buffer = buffer_of(made_by, number, bytes);
    ProgramMemory::Alive alive;
    alive.bytes = bytes;
    alive.type = buffer.type;
    alive.memory_class = buffer.memory_class;
    if (buffer.made_by.valid()) {
      const Node& node = program_.graph.node(buffer.made_by);
      alive.what = label(program_.graph, node);
      alive.where = source_line(node.location);
    } else if (buffer.argument >= 0) {
      alive.what = "%" + instance_.graph.value(argument(number)).name;
    }
    memory.at_peak[static_cast<size_t>(alive.memory_class)] += alive.bytes;
    memory.alive.push_back(std::move(alive));
  }

  void add(NodeId made_by, size_t number, int64_t bytes, int64_t first, int64_t last,
           MemoryHistory& history) const {
    history.buffers.push_back(buffer_of(made_by, number, bytes));
    history.buffers.back().first = first;
    history.buffers.back().last = last;
  }

 private:
  ValueId argument(size_t number) const {
    const Function& entry = *instance_.graph.find_function(instance_.entry);
    return instance_.graph.region(entry.body).args[number];
  }

  MemoryHistory::Buffer buffer_of(NodeId made_by, size_t number, int64_t bytes) const {
    MemoryHistory::Buffer buffer;
    buffer.bytes = bytes;
    if (!made_by.valid()) {
      buffer.argument = static_cast<int>(number);
      buffer.type = to_string(instance_.graph.type(argument(number)));
      buffer.memory_class = classes_.arguments[number];
      return buffer;
    }
    const Node& maker = instance_.graph.node(made_by);
    buffer.made_by = instance_.origin[made_by.index];
    if (number < maker.results.size())
      buffer.type = to_string(instance_.graph.result_type(maker, number));
    if (buffer.made_by.valid()) buffer.memory_class = classes_.nodes[buffer.made_by.index];
    return buffer;
  }

  const Program& program_;
  const Instance& instance_;
  const MemoryClasses classes_;
};

}  // namespace

ProgramMemory program_memory(const Program& program) {
  const int64_t device = program.mesh->device_at(0);
  if (!is_marked(program.graph, program.entry_function().body))
    return program_memory(program, device);
  const Instance instance = instantiate_shapes(program, device);
  const KernelMemory memory = kernel_memory(program, instance);
  Description describe(program, instance);
  ProgramMemory result;
  result.device = device;
  result.peak = memory.peak;
  result.arguments = memory.arguments;
  result.timeline = memory.timeline;
  if (memory.peak_at.valid()) result.peak_at = instance.origin[memory.peak_at.index];
  for (const KernelMemory::Held& held : memory.alive)
    describe.add(held.made_by, held.number, held.bytes, result);
  result.at_peak[static_cast<size_t>(MemoryClass::Temporaries)] += memory.inside;
  return result;
}

ProgramMemory program_memory(const Program& program, int64_t device,
                             const std::vector<int64_t>& runs) {
  const Instance instance = instantiate_shapes(program, device);
  const DryRun run = dry_run(program, instance, device, runs);
  Description describe(program, instance);
  ProgramMemory result;
  result.device = device;
  result.peak = run.peak;
  result.arguments = run.arguments;
  result.timeline = run.timeline;
  if (run.peak_at.valid()) result.peak_at = instance.origin[run.peak_at.index];
  for (const DryRun::Alive& buffer : run.alive)
    describe.add(buffer.made_by, buffer.index, buffer.bytes, result);
  result.at_peak[static_cast<size_t>(MemoryClass::Temporaries)] += run.kernel_bytes;
  return result;
}

namespace {

MemoryHistory history_of_kernels(const Program& program, const Instance& instance) {
  const KernelMemory memory = kernel_memory(program, instance);
  const Description describe(program, instance);
  MemoryHistory history;
  history.arguments = memory.arguments;
  const Function& entry = *instance.graph.find_function(instance.entry);
  const std::vector<NodeId>& nodes = instance.graph.region(entry.body).nodes;
  for (size_t at = 0; at < memory.timeline.size(); ++at)
    history.steps.push_back({instance.origin[nodes[at].index],
                             memory.timeline[at] + memory.inside_at[at], memory.inside_at[at]});
  for (const auto& [held, first, last] : memory.buffers)
    describe.add(held.made_by, held.number, held.bytes, first, last, history);
  return history;
}

MemoryHistory history_op_by_op(const Program& program, const Instance& instance, int64_t device) {
  const DryRun run = dry_run(program, instance, device, {}, true);
  const Description describe(program, instance);
  MemoryHistory history;
  history.arguments = run.arguments;
  std::vector<int64_t> change(run.steps.size() + 1);
  for (const auto& [what, first, last] : run.buffers) {
    describe.add(what.made_by, what.index, what.bytes, first, last, history);
    change[static_cast<size_t>(first)] += what.bytes;
    change[static_cast<size_t>(last) + 1] -= what.bytes;
  }
  int64_t live = 0;
  for (size_t at = 0; at < run.steps.size(); ++at) {
    live += change[at];
    const auto& [node, reached] = run.steps[at];
    history.steps.push_back(
        {node.valid() ? instance.origin[node.index] : NodeId{}, reached, reached - live});
  }
  return history;
}

}  // namespace

MemoryHistory memory_history(const Program& program) {
  const int64_t device = program.mesh->device_at(0);
  const Instance instance = instantiate_shapes(program, device);
  MemoryHistory history = is_marked(program.graph, program.entry_function().body)
                              ? history_of_kernels(program, instance)
                              : history_op_by_op(program, instance, device);
  std::stable_sort(history.buffers.begin(), history.buffers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return history;
}

std::string to_string(const ProgramMemory& memory, const Program& program, size_t num_alive) {
  std::string text = "peak " + bytes_text(memory.peak);
  if (memory.peak_at.valid()) {
    const Node& node = program.graph.node(memory.peak_at);
    text += " at " + label(program.graph, node);
    if (const std::string line = source_line(node.location); !line.empty()) text += " " + line;
  }
  text += fmt::format("; arguments {}\n", bytes_text(memory.arguments));
  const double total = memory.peak > 0 ? static_cast<double>(memory.peak) : 1;
  for (int c = 0; c < kNumMemoryClasses; ++c)
    if (memory.at_peak[c] > 0)
      text += fmt::format("  {:<16} {:>11} {:>5.1f}%\n", name(static_cast<MemoryClass>(c)),
                          bytes_text(memory.at_peak[c]),
                          100 * static_cast<double>(memory.at_peak[c]) / total);
  if (num_alive > 0 && !memory.alive.empty()) text += "alive there:\n";
  for (size_t i = 0; i < memory.alive.size() && i < num_alive; ++i) {
    const ProgramMemory::Alive& alive = memory.alive[i];
    text += fmt::format("  {:>11}  {:<16} {}  {}{}\n", bytes_text(alive.bytes),
                        name(alive.memory_class), alive.what, alive.type,
                        alive.where.empty() ? "" : "  " + alive.where);
  }
  if (num_alive > 0 && memory.alive.size() > num_alive)
    text += fmt::format("  and {} more\n", memory.alive.size() - num_alive);
  return text;
}

}  // namespace cleave::analyze
