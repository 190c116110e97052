#include "cleave/analyze/program_memory.h"

#include <fmt/format.h>

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
    ProgramMemory::Alive alive;
    alive.bytes = bytes;
    if (made_by.valid()) {
      const NodeId origin = instance_.origin[made_by.index];
      const Node& maker = instance_.graph.node(made_by);
      alive.type = maker.results.empty() ? "" : to_string(instance_.graph.result_type(maker));
      if (origin.valid()) {
        const Node& node = program_.graph.node(origin);
        alive.what = label(program_.graph, node);
        alive.where = source_line(node.location);
        alive.memory_class = classes_.nodes[origin.index];
      }
    } else {
      const Function& entry = *instance_.graph.find_function(instance_.entry);
      const ValueId argument = instance_.graph.region(entry.body).args[number];
      alive.what = "%" + instance_.graph.value(argument).name;
      alive.type = to_string(instance_.graph.type(argument));
      alive.memory_class = classes_.arguments[number];
    }
    memory.at_peak[static_cast<size_t>(alive.memory_class)] += alive.bytes;
    memory.alive.push_back(std::move(alive));
  }

 private:
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
