#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>

#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/cli/modules.h"
#include "cleave/cli/unknown_arguments.h"
#include "cleave/core/error.h"
#include "cleave/core/output_file.h"
#include "cleave/graph/json.h"
#include "cleave/graph/text/text.h"
#include "cleave/rewrite/pass.h"

namespace cleave::cli {
namespace {

constexpr std::string_view kHelp = R"help(Reads modules, runs passes on them, prints them.

cleave opt FILE|- [passes] [options]

  -PASS, -PASS='option=value ...'   run a pass; in the order of the command line
  --pass-pipeline="builtin.module(a,func.func(b{x=1}))"
  -split-input-file                 the file holds several modules, separated by // -----
  -verify-diagnostics               a module with an `expected-error` comment must fail
  -o FILE                           write there, not to standard output
  --print-after=PASS                print the module after a pass (or after all) to standard error
  --no-verify                       take modules that break a rule of their ops
  --trace                           print every decision of propagation, with its cause
  --no-warnings                     do not print conflicts and ops without a rule
  --timing                          print how long each pass took
  -mlir-print-op-generic            print every op in the generic syntax
  --json                            print the graph as JSON (docs/graph-json.md); JSON is read too
  -mlir-print-debuginfo             print locations
  --list-passes                     print the names of the passes

Options may be written with one dash or two.
)help";

struct OptCommand {
  std::string input;
  std::string output;
  bool split = false;
  bool verify_diagnostics = false;
  bool timing = false;
  bool trace = false;
  bool warnings = true;
  bool verify = true;
  bool json = false;
  std::string print_after;
  PrintOptions print;
  std::vector<PassCall> calls;
};

// Options of MLIR's tools that change nothing here.
bool is_tolerated(std::string_view name) {
  for (std::string_view known :
       {"allow-unregistered-dialect", "verify-each", "mlir-disable-threading", "canonicalize-off",
        "mlir-print-local-scope"})
    if (name == known) return true;
  return false;
}

// Passes, and the options that the help names.
std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const auto& [pass, what] : pass_registry().passes()) names.push_back("-" + pass);
  std::istringstream words{std::string(kHelp)};
  for (std::string word; words >> word;)
    if (word.starts_with('-') && word.size() > 2)
      names.push_back(word.substr(0, word.find_first_of("=,")));
  return names;
}

OptCommand parse_arguments(const std::vector<std::string>& args) {
  OptCommand command;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg.size() < 2 || arg[0] != '-') {
      if (!command.input.empty()) throw_user("two input files: '{}' and '{}'", command.input, arg);
      command.input = arg;
      continue;
    }
    const std::string_view body = std::string_view(arg).substr(arg[1] == '-' ? 2 : 1);
    const size_t equals = body.find('=');
    const std::string name(body.substr(0, equals));
    std::string value(equals == std::string_view::npos ? "" : body.substr(equals + 1));
    const auto take_value = [&] {
      if (equals == std::string_view::npos) {
        if (++i == args.size()) throw_user("option -{} needs a value", name);
        value = args[i];
      }
      return value;
    };
    if (name == "o")
      command.output = take_value();
    else if (name == "split-input-file")
      command.split = true;
    else if (name == "verify-diagnostics")
      command.verify_diagnostics = true;
    else if (name == "timing" || name == "mlir-timing")
      command.timing = true;
    else if (name == "trace")
      command.trace = true;
    else if (name == "no-warnings")
      command.warnings = false;
    else if (name == "json")
      command.json = true;
    else if (name == "no-verify")
      command.verify = false;
    else if (name == "print-after")
      command.print_after = take_value();
    else if (name == "mlir-print-op-generic")
      command.print.generic = true;
    else if (name == "mlir-print-debuginfo")
      command.print.locations = true;
    else if (name == "pass-pipeline") {
      for (PassCall& call : parse_pipeline(take_value())) command.calls.push_back(std::move(call));
    } else if (pass_registry().find(name)) {
      command.calls.push_back({name, parse_pass_options(value)});
    } else if (!is_tolerated(name)) {
      throw_user("unknown pass or option '{}'{}; cleave opt --list-passes lists the passes", arg,
                 did_you_mean(name, known_names()));
    }
  }
  if (command.input.empty()) command.input = "-";
  return command;
}

// Runs one module through the passes and returns its text.
std::string run_chunk(const OptCommand& command, const SourceChunk& chunk,
                      std::vector<PassTiming>& timings) {
  const auto begin = std::chrono::steady_clock::now();
  Graph graph = module_of_text(chunk.text, command.input, chunk.first_line, command.verify);
  const std::chrono::duration<double> parse = std::chrono::steady_clock::now() - begin;
  timings.push_back({"(parse)", parse.count()});
  PassContext context;
  context.remark = [](std::string_view text) { fmt::print(stderr, "{}\n", text); };
  context.trace = command.trace;
  if (command.warnings)
    context.warning = [](std::string_view text) { fmt::print(stderr, "warning: {}\n", text); };
  PipelineObserver observer;
  if (!command.print_after.empty())
    observer.after = [&](const PassCall& call, const Graph& after) {
      if (command.print_after == call.name || command.print_after == "all")
        fmt::print(stderr, "// ----- after {}\n{}", call.name, print_module(after, command.print));
    };
  for (PassTiming& timing : run_pipeline(graph, command.calls, context, observer))
    timings.push_back(std::move(timing));
  const auto print_begin = std::chrono::steady_clock::now();
  JsonOptions json;
  json.indent = 1;
  std::string text =
      command.json ? graph_to_json(graph, json) + "\n" : print_module(graph, command.print);
  const std::chrono::duration<double> print = std::chrono::steady_clock::now() - print_begin;
  timings.push_back({"(print)", print.count()});
  return text;
}

void print_timings(const std::vector<PassTiming>& timings) {
  std::vector<PassTiming> sums;
  for (const PassTiming& timing : timings) {
    auto it = std::find_if(sums.begin(), sums.end(),
                           [&](const PassTiming& sum) { return sum.name == timing.name; });
    if (it == sums.end())
      sums.push_back(timing);
    else
      it->seconds += timing.seconds;
  }
  for (const PassTiming& sum : sums)
    fmt::print(stderr, "{:>10.3f} ms  {}\n", sum.seconds * 1e3, sum.name);
}

void run(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--help" || arg == "-h" || arg == "-help") {
      fmt::print("{}", kHelp);
      return;
    }
    if (arg == "--list-passes" || arg == "-list-passes") {
      for (const auto& [name, pass] : pass_registry().passes()) {
        fmt::print("{}", name);
        for (const std::string& option : pass.options) fmt::print(" {}", option);
        fmt::print("\n");
      }
      return;
    }
  }
  const OptCommand command = [&] {
    try {
      return parse_arguments(args);
    } catch (const UserError& error) {
      throw CLI::ParseError(error.what(), CLI::ExitCodes::ArgumentMismatch);
    }
  }();
  if (!command.output.empty() && command.output != "-") check_writable(command.output);
  const std::string input = read_text(command.input);
  const std::vector<SourceChunk> chunks =
      command.split ? split_input(input) : std::vector<SourceChunk>{{input, 1}};
  std::string text;
  std::vector<PassTiming> timings;
  size_t failures = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (i) text += "\n// -----\n";
    const bool expect_error = command.verify_diagnostics &&
                              chunks[i].text.find("expected-error") != std::string_view::npos;
    try {
      text += run_chunk(command, chunks[i], timings);
      if (expect_error) {
        ++failures;
        fmt::print(stderr, "{}:{}: an error was expected, but there was none\n", command.input,
                   chunks[i].first_line);
      }
    } catch (const UserError& error) {
      if (expect_error) continue;
      if (!command.split) throw;
      ++failures;
      fmt::print(stderr, "error: {}\n", error.what());
    }
  }
  if (command.timing) print_timings(timings);
  if (command.output.empty() || command.output == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    write_file(command.output, text);
  }
  if (failures) throw CLI::RuntimeError(1);
}

}  // namespace

void add_opt_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("opt", "Read modules, run passes on them, print them");
  // The passes are options with one dash or two, in an order that counts: read by hand.
  command->set_help_flag();
  command->prefix_command();
  command->callback([command] { run(command->remaining()); });
}

}  // namespace cleave::cli
