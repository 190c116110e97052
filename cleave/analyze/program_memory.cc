#include "cleave/analyze/program_memory.h"

#include <fmt/format.h>

#include "cleave/core/units.h"
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

}  // namespace

ProgramMemory program_memory(const Program& program) {
  return program_memory(program, program.mesh->device_at(0));
}

ProgramMemory program_memory(const Program& program, int64_t device,
                             const std::vector<int64_t>& runs) {
  const Instance instance = instantiate_shapes(program, device);
  const DryRun run = dry_run(program, instance, device, runs);
  const MemoryClasses classes = memory_classes(program);
  ProgramMemory result;
  result.device = device;
  result.peak = run.peak;
  result.arguments = run.arguments;
  result.timeline = run.timeline;
  if (run.peak_at.valid()) result.peak_at = instance.origin[run.peak_at.index];
  const Function& entry = *instance.graph.find_function(instance.entry);
  const std::vector<ValueId>& args = instance.graph.region(entry.body).args;
  for (const DryRun::Alive& buffer : run.alive) {
    ProgramMemory::Alive alive;
    alive.bytes = buffer.bytes;
    if (buffer.made_by.valid()) {
      const NodeId origin = instance.origin[buffer.made_by.index];
      const Node& made_by = instance.graph.node(buffer.made_by);
      alive.type = made_by.results.empty() ? "" : to_string(instance.graph.result_type(made_by));
      if (origin.valid()) {
        const Node& node = program.graph.node(origin);
        alive.what = label(program.graph, node);
        alive.where = node.location;
        alive.memory_class = classes.nodes[origin.index];
      }
    } else {
      alive.what = "%" + instance.graph.value(args[buffer.index]).name;
      alive.type = to_string(instance.graph.type(args[buffer.index]));
      alive.memory_class = classes.arguments[buffer.index];
    }
    result.at_peak[static_cast<size_t>(alive.memory_class)] += alive.bytes;
    result.alive.push_back(std::move(alive));
  }
  result.at_peak[static_cast<size_t>(MemoryClass::Temporaries)] += run.kernel_bytes;
  return result;
}

std::string to_string(const ProgramMemory& memory, const Program& program, size_t num_alive) {
  std::string text = "peak " + bytes_text(memory.peak);
  if (memory.peak_at.valid()) {
    const Node& node = program.graph.node(memory.peak_at);
    text += " at " + label(program.graph, node);
    if (!node.location.empty()) text += " " + node.location;
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
