#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cleave/core/units.h"
#include "cleave/xla/compiled_program.h"

namespace cleave::xla {
namespace {

std::string times(double count) { return fmt::format("{:.0f}", count); }
std::string size(double bytes) { return bytes_text(bytes, BytesStyle::Table); }

std::string over(const CompiledTotal& total) {
  if (!total.groups.empty()) return groups_text(total.groups);
  return total.group_size > 1 ? "by pairs" : "by pairs, none of two devices";
}

std::string remarks(const CompiledCollective& c) {
  std::string text;
  if (c.in_branch)
    text += c.counted == 0 ? ", in a branch that is not the dearest" : ", in a branch";
  if (!c.has_known_trips) text += ", in a loop of unknown trips";
  if (c.is_at_most) text += ", at most";
  return text;
}

void add_memory(std::string& text, const CompiledMemory& memory) {
  const auto bytes = [](int64_t n) { return size(static_cast<double>(n)); };
  text += fmt::format("memory of a device: {} arguments, {} results", bytes(memory.arguments),
                      bytes(memory.results));
  if (memory.aliased > 0) text += fmt::format(", {} of them in their place", bytes(memory.aliased));
  if (memory.temporaries)
    text += fmt::format(", {} temporaries: {}", bytes(*memory.temporaries), bytes(*memory.total()));
  text += "\n";
}

}  // namespace

std::string to_string(const CompiledProgram& program, size_t most) {
  std::string text = fmt::format("{}: {} device{}", program.name, program.devices(),
                                 program.devices() == 1 ? "" : "s");
  if (program.replicas > 1)
    text += fmt::format(" ({} replicas of {} partitions)", program.replicas, program.partitions);
  text += "\n";
  if (program.totals.empty())
    text += "no collectives\n";
  else
    text +=
        fmt::format("{:<22} {:>10} {:>12}  {}\n", "collective", "executions", "received", "over");
  for (const CompiledTotal& total : program.totals)
    text += fmt::format("{:<22} {:>10} {:>12}  {}\n", total.kind, times(total.executions),
                        size(total.received_bytes), over(total));
  if (!program.totals.empty())
    text += fmt::format("{:<22} {:>10} {:>12}\n", "all", "", size(program.received_bytes()));
  std::vector<const CompiledCollective*> order;
  for (const CompiledCollective& c : program.collectives) order.push_back(&c);
  const auto bytes = [](const CompiledCollective& c) { return c.executions * c.received_bytes; };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return bytes(*a) > bytes(*b); });
  if (order.size() > most) order.resize(most);
  if (!order.empty()) text += "dearest:\n";
  for (const CompiledCollective* c : order)
    text += fmt::format("  {:>12}  x{:<6} {} {}{}{}\n", size(bytes(*c)), times(c->executions),
                        c->kind, c->name, c->op_name.empty() ? "" : "  " + c->op_name, remarks(*c));
  for (const std::string& loop : program.unknown_loops)
    text += fmt::format("note: the trips of loop {} are not known; --trips says how many\n", loop);
  add_memory(text, program.memory);
  return text;
}

std::string to_json(const CompiledProgram& program) {
  nlohmann::ordered_json json = {{"module", program.name},
                                 {"partitions", program.partitions},
                                 {"replicas", program.replicas},
                                 {"received_bytes", program.received_bytes()}};
  json["totals"] = nlohmann::ordered_json::array();
  for (const CompiledTotal& total : program.totals)
    json["totals"].push_back({{"kind", total.kind},
                              {"group_size", total.group_size},
                              {"groups", total.groups},
                              {"executions", total.executions},
                              {"received_bytes", total.received_bytes}});
  json["collectives"] = nlohmann::ordered_json::array();
  for (const CompiledCollective& c : program.collectives)
    json["collectives"].push_back({{"kind", c.kind},
                                   {"name", c.name},
                                   {"op_name", c.op_name},
                                   {"groups", c.groups},
                                   {"pairs", c.pairs},
                                   {"operand_bytes", c.operand_bytes},
                                   {"received_bytes", c.received_bytes},
                                   {"executions", c.executions},
                                   {"counted", c.counted},
                                   {"async", c.is_async},
                                   {"in_branch", c.in_branch},
                                   {"trips_known", c.has_known_trips},
                                   {"at_most", c.is_at_most}});
  json["unknown_loops"] = program.unknown_loops;
  const CompiledMemory& memory = program.memory;
  json["memory"] = {
      {"arguments", memory.arguments}, {"results", memory.results}, {"aliased", memory.aliased}};
  if (memory.temporaries) {
    json["memory"]["temporaries"] = *memory.temporaries;
    json["memory"]["total"] = *memory.total();
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cleave::xla
