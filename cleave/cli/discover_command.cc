#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/cli/discover_operator.h"
#include "cleave/cli/files.h"
#include "cleave/cli/tensor_options.h"
#include "cleave/cli/version.h"
#include "cleave/core/error.h"
#include "cleave/core/output_file.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/command_operator.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/gradient.h"
#include "cleave/discover/library.h"
#include "cleave/discover/mesh_check.h"
#include "cleave/discover/op_call.h"
#include "cleave/discover/registry_check.h"
#include "cleave/discover/replay.h"
#include "cleave/report/page.h"
#include "cleave/report/report.h"

namespace cleave::cli {
namespace {

constexpr int64_t kMostDevices = 256;

struct DiscoverArguments {
  std::vector<std::string> ops;
  OperatorText op;  // what is said of all of them
  std::string replay;
  std::string worlds = "2,3,4";
  std::string format = "table";
  std::string emit;
  std::string mesh;
  std::string out;
  uint64_t seed = 0;
  bool list = false;
  bool schema = false;
  bool all = false;
  bool diff = false;
  bool gradient = false;
  bool no_shrink = false;
  bool every_witness = false;
  std::vector<std::string> generators;
  int threads = 2;
};

// A line on the terminal that says how far a long run is; nothing if stderr is not one.
std::function<void(const std::string&, double)> progress_line() {
  if (!isatty(fileno(stderr))) return {};
  return [](const std::string& name, double share) {
    fmt::print(stderr, "\r\x1b[K{:3.0f} % {}", 100 * share, name);
    if (share >= 1) fmt::print(stderr, "\r\x1b[K");
  };
}

// Every claim of every rule in the registry, by execution.
void check_all(const DiscoverArguments& options, const DiscoverOptions& settings) {
  const RegistryReport report = check_registry(settings, options.diff);
  for (const Claim& claim : report.incorrect) fmt::print("incorrect  {}\n", to_string(claim));
  if (options.format == "markdown") {
    fmt::print("{}", missing_markdown(report));
  } else {
    for (const MissingClaim& m : report.missing)
      fmt::print("missing  {}({}): {}: {}\n", m.op, m.call, m.combination, m.reason);
    for (const Claim& claim : report.untestable) fmt::print("untestable  {}\n", to_string(claim));
    for (const auto& [name, reason] : ops_without_sample())
      fmt::print("no sample  {}: {}\n", name, reason);
    fmt::print("{} samples, {} claims: {} incorrect, {} untestable", report.samples, report.claims,
               report.incorrect.size(), report.untestable.size());
    if (options.diff)
      fmt::print("; {} combinations: {} missing", report.combinations, report.missing.size());
    fmt::print("\n");
  }
  if (!report.incorrect.empty()) throw CLI::RuntimeError(1);
}

// "spikes=0,1e30,-1e30": every element is one of the numbers.
InputGenerator parse_generator(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size())
    throw_user("--generator '{}': write it as name=number[,number...]", text);
  std::vector<double> numbers;
  for (const std::string& item : split(text.substr(equals + 1), ',')) {
    char* end = nullptr;
    numbers.push_back(std::strtod(item.c_str(), &end));
    if (item.empty() || *end) throw_user("--generator: '{}' is not a number", item);
  }
  return generator_of_values(text.substr(0, equals), std::move(numbers));
}

DiscoverOptions settings_of(const DiscoverArguments& options) {
  DiscoverOptions settings;
  for (const std::string& text : options.generators)
    settings.generators.push_back(parse_generator(text));
  settings.seed = options.seed;
  settings.threads = options.threads;
  settings.progress = progress_line();
  settings.versions["cleave"] = split(kVersion, ' ').at(1);  // cleave 0.1.0 (1a2b3c4)
  settings.worlds.clear();
  for (const std::string& w : split(options.worlds, ',')) {
    const int64_t world = parse_int(w, "--world");
    if (world < 2) throw_user("--world: a mesh axis needs at least 2 devices");
    if (world > kMostDevices)
      throw_user("--world {}: at most {} devices are tried", world, kMostDevices);
    settings.worlds.push_back(static_cast<int>(world));
  }
  return settings;
}

void list_operators() {
  for (const Operator& op : operator_library())
    fmt::print("{:<16} {}\n", op.name, to_string(op.samples.front()));
  for (const Graph& sample : registry_samples())
    fmt::print("{:<36} {}\n", sample.node(called_op(sample)).name(), to_string(sample_of(sample)));
}

// Runs the reproduction of a refutation again.
void run_replay(const DiscoverArguments& options) {
  constexpr const char* kWitness =
      "a witness (what discover prints of a refutation: a line such as relu(1 f64)  P(sum) -> "
      "P(sum)  on 2 devices, and one for each operand)";
  const WitnessText text = parse_witness(read_text(options.replay, kWitness));
  OperatorText op = options.op;
  op.name = options.ops.empty() ? text.op : options.ops.front();
  if (!op.command.empty() && op.shapes.empty())
    fmt::print("{}",
               replay(operator_of_command(text.op, op.command, {text.witness.sample}, {op.timeout}),
                      text.witness));
  else
    fmt::print("{}", replay(operator_of_text(op), text.witness));
}

std::string emitted(const std::string& what, const Operator& op, const Discovery& discovery) {
  return what == "cleave"    ? emit_cleave(discovery)
         : what == "dtensor" ? emit_dtensor(discovery)
         : what == "shardy"  ? emit_shardy(discovery)
         : what == "tests"   ? emit_cleave_tests(op, discovery)
                             : emit_dtensor_tests(discovery);
}

// "2x2"
std::vector<int> mesh_sizes(const std::string& text) {
  std::vector<int> sizes;
  int64_t devices = 1;
  for (int64_t size : parse_shape(text)) {
    devices *= std::clamp<int64_t>(size, 0, kMostDevices);
    if (size < 2 || devices > kMostDevices)
      throw_user("--mesh {}: axes need at least 2 devices each, and at most {} in all", text,
                 kMostDevices);
    sizes.push_back(static_cast<int>(size));
  }
  if (sizes.size() != 2) throw_user("--mesh {}: two axes are needed, such as 2x2", text);
  return sizes;
}

std::string page(const Operator& op, const Discovery& discovery, bool shrink_witnesses) {
  return report::page_of(
      report::discovery_report(report_page(op, discovery, shrink_witnesses), op.name),
      "cleave discover " + op.name);
}

// What is asked for about one operator, as text.
std::string report(const std::string& name, const DiscoverArguments& options,
                   const DiscoverOptions& settings) {
  OperatorText text = options.op;
  text.name = name;
  if (!options.mesh.empty()) mesh_sizes(options.mesh);  // before the work that it would be for
  Operator op = operator_of_text(text);
  if (options.gradient) op = gradient_of(op);
  DiscoverOptions of_report = settings;
  of_report.random_is_result = options.mesh.empty() && options.emit.empty();
  const Discovery discovery = discover(op, of_report);
  if (!options.mesh.empty()) {
    return report_mesh(check_mesh(op, discovery, mesh_sizes(options.mesh), settings));
  }
  if (!options.emit.empty()) return emitted(options.emit, op, discovery);
  return options.format == "yaml"   ? report_yaml(discovery)
         : options.format == "json" ? report_json(discovery)
         : options.format == "html" ? page(op, discovery, settings.shrink_witnesses)
                                    : report_table(discovery);
}

void check_format(const DiscoverArguments& options) {
  const bool text = options.format == "table" || options.format == "markdown";
  if (options.all ? !text : options.format == "markdown")
    throw_user("--format {}: {}", options.format,
               options.all ? "with --all there are table and markdown" : "it is for --all");
  if (options.every_witness && text)
    throw_user("--every-witness: tables have no room for them; say --format yaml, json or html");
  if (options.format == "html" && options.ops.size() > 1)
    throw_user("--format html: a page shows one operator, and {} are named", options.ops.size());
}

void run(const DiscoverArguments& options) {
  if (options.list) return list_operators();
  if (options.schema) return fmt::print("{}", report_schema());
  check_format(options);
  DiscoverOptions settings = settings_of(options);
  if (options.all) return check_all(options, settings);
  if (!options.replay.empty()) return run_replay(options);
  if (options.no_shrink || !options.mesh.empty() || !options.emit.empty())
    settings.shrink_witnesses = false;
  settings.every_family = options.every_witness;
  std::vector<std::string> ops = options.ops;
  if (ops.empty()) ops.emplace_back();
  if (!options.out.empty()) check_writable(options.out);
  const bool json = options.emit.empty() && options.mesh.empty() && options.format == "json";
  const bool yaml = options.emit.empty() && options.mesh.empty() && options.format == "yaml";
  std::string all;
  for (size_t i = 0; i < ops.size(); ++i) {
    std::string text = report(ops[i], options, settings);
    if (ops.size() > 1 && json) text.insert(0, i ? "," : "[");
    if (ops.size() > 1 && yaml) text.insert(0, "---\n");
    if (ops.size() > 1 && json && i + 1 == ops.size()) text += "]\n";
    if (options.out.empty())
      fmt::print("{}", text);
    else
      all += text;
  }
  if (!options.out.empty()) write_file(options.out, all);
}

// Options that would change nothing beside others.
void refuse_idle_discover_options(CLI::App& command) {
  const auto option = [&](const char* name) { return command.get_option(name); };
  const auto excludes = [&](const char* name, std::initializer_list<const char*> others) {
    for (const char* other : others) option(name)->excludes(option(other));
  };
  option("--diff")->needs(option("--all"));
  option("--out")->excludes(option("--list"));
  option("--out")->excludes(option("--schema"));
  option("--timeout")->needs(option("--command"));
  excludes("--mesh", {"--emit", "--format"});
  excludes("--emit", {"--format"});
  excludes("--all",
           {"operator", "--command", "--shape", "--attr", "--domain", "--mesh", "--emit",
            "--gradient", "--replay", "--every-witness", "--no-shrink", "--list", "--out"});
  excludes("--replay", {"--out", "--mesh", "--emit", "--format", "--gradient", "--every-witness",
                        "--no-shrink", "--list"});
}

}  // namespace

void add_discover_command(CLI::App& app) {
  auto options = std::make_shared<DiscoverArguments>();
  CLI::App* command =
      app.add_subcommand("discover", "Find out which placements an operator really supports");
  command->add_option(
      "operator", options->ops,
      "operators of the library, such as cross or softmax, ops of the registry, such as "
      "stablehlo.dot_general, or files with a StableHLO module");
  command->add_option("--command", options->op.command,
                      "a program that computes the operator, asked over its standard input; see "
                      "docs/guide/discovery.md");
  command
      ->add_option("--timeout", options->op.timeout,
                   "seconds that --command has for one answer, its start included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option(
          "--shape", options->op.shapes,
          "a shape per operand, with its dtype if that is not the default: 8x3,8x3xi64; more "
          "than one --shape: several calls")
      ->take_all();
  command->add_option("--attr", options->op.attrs, "values to sweep: dim=0,1")->take_all();
  command->add_option("--domain", options->op.domains,
                      "the numbers that each operand takes: any, nonzero, positive, bool, "
                      "index:LIMIT, sorted, definite");
  command
      ->add_option("--world", options->worlds,
                   "numbers of devices to try; one that leaves unequal shards is added for sizes "
                   "that all of these divide")
      ->capture_default_str();
  command->add_option("--mesh", options->mesh,
                      "check that the rules of two axes compose on a mesh such as 2x2");
  command
      ->add_option("--format", options->format,
                   "table, yaml, json or html, a page with the matrix of placements and witnesses "
                   "drawn on the shards; markdown with --all")
      ->check(CLI::IsMember({"table", "yaml", "json", "html", "markdown"}))
      ->capture_default_str();
  command->add_option("-o,--out", options->out, "a file for the report, instead of printing it");
  command
      ->add_option(
          "--emit", options->emit,
          "rule code for review, or tests of the strategies: cleave, dtensor, shardy, tests "
          "(for Cleave) or dtensor-tests")
      ->check(CLI::IsMember({"cleave", "dtensor", "shardy", "tests", "dtensor-tests"}));
  command->add_option("--seed", options->seed, "seed of the random inputs and decompositions")
      ->capture_default_str();
  command->add_flag("--all", options->all, "certify every rule of the op registry by execution");
  command->add_flag("--diff", options->diff,
                    "with --all: also list right placements that no rule claims");
  command
      ->add_option("--threads", options->threads, "threads; verdicts do not depend on their number")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag(
      "--gradient", options->gradient,
      "discover the operator's reverse derivative: operands and cotangents in, cotangents "
      "of operands out");
  command->add_option("--generator", options->generators,
                      "inputs beside the usual ones: name=number[,number...]");
  command->add_option("--replay", options->replay,
                      "run a printed witness again, from a file or - for standard input");
  command->add_flag(
      "--every-witness", options->every_witness,
      "with --format yaml or json: a witness for every family that fails; html has them");
  command->add_flag("--no-shrink", options->no_shrink, "leave witnesses as they were found");
  command->add_flag("--list", options->list, "the operators that are known");
  command->add_flag("--schema", options->schema, "the JSON schema of reports, and nothing else");
  refuse_idle_discover_options(*command);
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
