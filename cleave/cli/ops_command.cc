#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/transforms/derivative_support.h"

namespace cleave::cli {
namespace {

// What an op may have, under the name that tests use for it.
struct Column {
  const char* name;
  bool (*has)(const OpDef&);
  std::string_view (*why_not)(const OpDef&) = [](const OpDef&) { return std::string_view(); };
};

constexpr Column kColumns[] = {
    {"shape", [](const OpDef& d) { return d.infer != nullptr; }},
    {"rule", [](const OpDef& d) { return d.rule != nullptr; }},
    {"partial", [](const OpDef& d) { return d.partial != nullptr; }},
    {"kernel", [](const OpDef& d) { return d.eval != nullptr; }},
    {"local", [](const OpDef& d) { return d.localize != nullptr || d.needs != nullptr; }},
    {"jvp", [](const OpDef& d) { return has_derivative(d, DiffMode::Forward); }, why_no_derivative},
    {"vjp", [](const OpDef& d) { return has_derivative(d, DiffMode::Reverse); }, why_no_derivative},
    {"batch", has_batch, why_no_batch},
};

using Coverage = std::set<std::pair<std::string, std::string>>;  // column, op

Coverage read_coverage(const std::string& path) {
  std::istringstream lines(read_text(path));
  Coverage coverage;
  for (std::string column, op; lines >> column >> op;) coverage.emplace(column, op);
  return coverage;
}

// By any suite: those that share a column add a name of their own, "jvp/differences".
bool is_tested(const Coverage& tested, const Column& column, const std::string& op) {
  const std::string shared = std::string(column.name) + "/";
  return std::ranges::any_of(tested, [&](const auto& line) {
    return line.second == op && (line.first == column.name || line.first.starts_with(shared));
  });
}

void print_table(const Coverage& tested) {
  fmt::print("# Ops\n\n");
  fmt::print(
      "Everything that the registry knows, and what tests cover. `yes`: the op has it; **tested**: "
      "a test tries it on this very op\n(`tests/op_coverage.txt`, which each suite compares with "
      "its own table of samples); a word: it needs none, and why; empty: it has\nnone.\n\n");
  fmt::print(
      "- shape: infers the types of its results; tested: modules that JAX prints have the same\n"
      "- rule: its factors, for sharding; partial: which pending reductions it carries; local: its "
      "part on one device, where that\n  is more than the op on smaller shapes; tested: certified "
      "by execution, every placement, uneven sizes\n"
      "- kernel: runs on the CPU; tested: the numbers of JAX\n"
      "- jvp, vjp: derivatives, forward and reverse; tested: those of JAX, or central differences\n"
      "- batch: many examples at once (vmap); tested: equal to a loop over the examples, every "
      "combination of operands\n\n");
  fmt::print(
      "An op without a rule is data flow, a collective or a constant, for which propagation has "
      "ways of its own; operands of an op\nthat carries no partials are completed first; without "
      "local, the op itself runs on smaller shapes. Why there is no jvp, vjp\nor batch:\n\n");
  for (const Reason& reason : reasons()) fmt::print("- {}: {}\n", reason.word, reason.meaning);
  fmt::print("\nThis file is written by `scripts/ops-table`.\n\n");
  fmt::print("| op |");
  for (const Column& column : kColumns) fmt::print(" {} |", column.name);
  fmt::print("\n|---|");
  for (size_t i = 0; i < std::size(kColumns); ++i) fmt::print("---|");
  fmt::print("\n");
  for (const auto& [name, def] : op_registry().ops()) {
    if (def.has(kTerminator)) continue;
    fmt::print("| `{}` |", name);
    for (const Column& column : kColumns)
      fmt::print(" {} |", !column.has(def)                  ? column.why_not(def)
                          : is_tested(tested, column, name) ? "**tested**"
                                                            : "yes");
    fmt::print("\n");
  }
  fmt::print("\n| of {} ops |", op_registry().ops().size());
  for (const Column& column : kColumns) fmt::print(" {} |", column.name);
  fmt::print("\n|---|");
  for (size_t i = 0; i < std::size(kColumns); ++i) fmt::print("---|");
  for (const bool only_tested : {false, true}) {
    fmt::print("\n| {} |", only_tested ? "tested" : "have it");
    for (const Column& column : kColumns) {
      size_t count = 0;
      for (const auto& [name, def] : op_registry().ops())
        count += !def.has(kTerminator) && column.has(def) &&
                 (!only_tested || is_tested(tested, column, name));
      fmt::print(" {} |", count);
    }
  }
  fmt::print("\n");
}

void print_list() {
  for (const auto& [name, def] : op_registry().ops()) {
    std::string has;
    for (const Column& column : kColumns)
      if (column.has(def)) has += fmt::format(" {}", column.name);
    fmt::print("{}:{}\n", name, has);
  }
}

}  // namespace

void add_ops_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ops", "List every op and what is known about it");
  auto markdown = std::make_shared<bool>(false);
  auto tested = std::make_shared<std::string>();
  command->add_flag("--markdown", *markdown, "print the table of docs/ops.md");
  command->add_option("--tested", *tested, "what tests cover: lines of COLUMN OP")
      ->needs(command->get_option("--markdown"));
  command->callback([=] {
    if (*markdown)
      print_table(tested->empty() ? Coverage{} : read_coverage(*tested));
    else
      print_list();
  });
}

}  // namespace cleave::cli
