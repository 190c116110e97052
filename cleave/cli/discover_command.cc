#include <fmt/core.h>
#include <unistd.h>

#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/core/error.h"
#include "cleave/core/text_cursor.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/gradient.h"
#include "cleave/discover/library.h"
#include "cleave/discover/mesh_check.h"
#include "cleave/discover/op_call.h"
#include "cleave/discover/registry_check.h"
#include "cleave/discover/registry_operator.h"

namespace cleave::cli {
namespace {

struct Options {
  std::string op;
  std::string shapes;
  std::vector<std::string> attrs;
  std::string worlds = "2,3,4";
  std::string format = "table";
  std::string emit;
  std::string mesh;
  uint64_t seed = 0;
  bool list = false;
  bool all = false;
  bool diff = false;
  bool gradient = false;
  bool no_shrink = false;
  std::vector<std::string> generators;
  int threads = 2;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// At commas outside of brackets:  "[0,1],[1]" -> "[0,1]", "[1]"
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

int64_t parse_int(const std::string& text, const char* what) {
  TextCursor cursor(text);
  try {
    const int64_t value = cursor.integer();
    if (cursor.at_end()) return value;
  } catch (const ParseError&) {
  }
  throw_user("{}: '{}' is not a number", what, text);
}

Shape parse_shape(const std::string& text) {
  Shape shape;
  if (text.empty() || text == "scalar") return shape;
  for (const std::string& size : split(text, 'x')) {
    shape.push_back(parse_int(size, "--shape"));
    if (shape.back() < 0) throw_user("--shape: '{}' has a negative size", text);
  }
  return shape;
}

// "[1, 0]" or, as shapes are written, "1x0".
std::vector<int64_t> parse_list(const std::string& text) {
  if (!text.starts_with('[')) return parse_shape(text);
  std::vector<int64_t> values;
  if (!text.ends_with(']')) throw_user("--attr: '{}' lacks a ]", text);
  const std::string inside = text.substr(1, text.size() - 2);
  if (inside.empty()) return values;
  for (std::string item : split(inside, ',')) {
    std::erase(item, ' ');
    values.push_back(parse_int(item, "--attr"));
  }
  return values;
}

// A value as the operator's own samples write this attribute.
AttrValue parse_value(const std::string& name, const std::string& text, const AttrValue& like) {
  if (std::holds_alternative<bool>(like)) {
    if (text != "true" && text != "false")
      throw_user("--attr {}: '{}' is neither true nor false", name, text);
    return text == "true";
  }
  if (std::holds_alternative<int64_t>(like)) return parse_int(text, "--attr");
  if (std::holds_alternative<double>(like)) return std::stod(text);
  if (std::holds_alternative<std::vector<int64_t>>(like)) return parse_list(text);
  return text;
}

void apply_attrs(Operator& op, const std::vector<std::string>& attrs) {
  for (const std::string& assignment : attrs) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      throw_user("--attr '{}': write it as name=value[,value...]", assignment);
    const std::string name = assignment.substr(0, equals);
    std::vector<Sample> samples;
    for (const Sample& sample : op.samples) {
      auto it = sample.attrs.find(name);
      if (it == sample.attrs.end())
        throw_user("--attr {}: {} has no such attribute; it has: {}", name, op.name,
                   to_string(sample.attrs));
      for (const std::string& value : split_values(assignment.substr(equals + 1))) {
        Sample changed = sample;
        changed.attrs[name] = parse_value(name, value, it->second);
        const bool known = std::any_of(samples.begin(), samples.end(), [&](const Sample& s) {
          return to_string(s) == to_string(changed);
        });
        if (!known) samples.push_back(std::move(changed));
      }
    }
    op.samples = std::move(samples);
  }
}

void apply_shapes(Operator& op, const std::string& text) {
  const std::vector<std::string> shapes = split(text, ',');
  std::vector<Sample> samples;
  for (Sample sample : op.samples) {
    if (sample.operands.size() != shapes.size())
      throw_user("--shape: {} takes {} operands, {} shapes given", op.name, sample.operands.size(),
                 shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) sample.operands[i].shape = parse_shape(shapes[i]);
    const bool known = std::any_of(samples.begin(), samples.end(), [&](const Sample& s) {
      return to_string(s) == to_string(sample);
    });
    if (!known) samples.push_back(std::move(sample));
  }
  op.samples = std::move(samples);
}

// A line on the terminal that says how far a long run is; nothing where stderr is not one.
std::function<void(const std::string&, double)> progress_line() {
  if (!isatty(fileno(stderr))) return {};
  return [](const std::string& name, double share) {
    fmt::print(stderr, "\r\x1b[K{:3.0f} % {}", 100 * share, name);
    if (share >= 1) fmt::print(stderr, "\r\x1b[K");
  };
}

// Every claim of every rule in the registry, by execution.
void check_all(const Options& options, const DiscoverOptions& settings) {
  const RegistryReport report = check_registry(settings, options.diff);
  for (const Claim& claim : report.incorrect) fmt::print("incorrect  {}\n", to_string(claim));
  if (options.format == "markdown") {
    fmt::print("{}", missing_markdown(report));
  } else {
    for (const MissingClaim& m : report.missing)
      fmt::print("missing  {}({}): {}: {}\n", m.op, m.call, m.combination, m.reason);
    for (const auto& [name, reason] : ops_without_sample())
      fmt::print("no sample  {}: {}\n", name, reason);
    fmt::print("{} samples, {} claims: {} incorrect, {} untestable", report.samples, report.claims,
               report.incorrect.size(), report.untestable);
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

DiscoverOptions settings_of(const Options& options) {
  DiscoverOptions settings;
  for (const std::string& text : options.generators)
    settings.generators.push_back(parse_generator(text));
  settings.seed = options.seed;
  settings.threads = options.threads;
  settings.progress = progress_line();
  settings.worlds.clear();
  for (const std::string& w : split(options.worlds, ',')) {
    settings.worlds.push_back(static_cast<int>(parse_int(w, "--world")));
    if (settings.worlds.back() < 2) throw_user("--world: a mesh axis needs at least 2 devices");
  }
  return settings;
}

void run(const Options& options) {
  if (options.list) {
    for (const Operator& op : operator_library())
      fmt::print("{:<16} {}\n", op.name, to_string(op.samples.front()));
    for (const Graph& sample : registry_samples())
      fmt::print("{:<36} {}\n", sample.node(called_op(sample)).name, to_string(sample_of(sample)));
    return;
  }
  DiscoverOptions settings = settings_of(options);
  if (options.all) return check_all(options, settings);
  const Operator* known = find_operator(options.op);
  std::optional<Operator> registered = known ? std::nullopt : find_registry_operator(options.op);
  if (!known && !registered)
    throw_user("discover: unknown operator '{}'; see cleave discover --list", options.op);
  Operator op = known ? *known : *registered;
  if (!options.shapes.empty()) apply_shapes(op, options.shapes);
  apply_attrs(op, options.attrs);
  if (options.gradient) op = gradient_of(op);
  if (options.no_shrink || !options.mesh.empty() || !options.emit.empty())
    settings.shrink_witnesses = false;
  const Discovery discovery = discover(op, settings);
  if (!options.mesh.empty()) {
    std::vector<int> sizes;
    for (int64_t size : parse_shape(options.mesh)) sizes.push_back(static_cast<int>(size));
    const MeshReport report = check_mesh(op, discovery, sizes, settings);
    fmt::print("{}", report_mesh(report));
    return;
  }
  if (!options.emit.empty()) {
    fmt::print("{}", options.emit == "cleave"    ? emit_cleave(discovery)
                     : options.emit == "dtensor" ? emit_dtensor(discovery)
                     : options.emit == "shardy"  ? emit_shardy(discovery)
                     : options.emit == "tests"   ? emit_cleave_tests(op, discovery)
                                                 : emit_dtensor_tests(discovery));
  } else if (options.format == "yaml") {
    fmt::print("{}", report_yaml(discovery));
  } else if (options.format == "json") {
    fmt::print("{}", report_json(discovery));
  } else {
    fmt::print("{}", report_table(discovery));
  }
}

}  // namespace

void add_discover_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("discover", "Find out which placements an operator really supports");
  command->add_option(
      "operator", options->op,
      "an operator of the library, such as cross or softmax, or an op of the registry, "
      "such as stablehlo.dot_general");
  command->add_option("--shape", options->shapes, "a shape per operand, such as 8x3,8x3");
  command->add_option("--attr", options->attrs, "values to sweep: dim=0,1")->take_all();
  command->add_option("--world", options->worlds, "numbers of devices to try")
      ->capture_default_str();
  command->add_option("--mesh", options->mesh,
                      "check that the rules of two axes compose on a mesh such as 2x2");
  command->add_option("--format", options->format, "table, yaml or json; markdown with --all")
      ->check(CLI::IsMember({"table", "yaml", "json", "markdown"}))
      ->capture_default_str();
  command
      ->add_option(
          "--emit", options->emit,
          "rule code for review, or tests of the strategies: cleave, dtensor, shardy, tests "
          "(for Cleave) or dtensor-tests")
      ->check(CLI::IsMember({"cleave", "dtensor", "shardy", "tests", "dtensor-tests"}));
  command->add_option("--seed", options->seed, "of the random inputs and decompositions")
      ->capture_default_str();
  command->add_flag("--all", options->all, "certify every rule of the op registry by execution");
  command->add_flag("--diff", options->diff,
                    "with --all: also list right placements that no rule claims");
  command->add_option("--threads", options->threads, "verdicts do not depend on it")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--gradient", options->gradient,
                    "of the operator's reverse derivative: operands and cotangents in, cotangents "
                    "of operands out");
  command->add_option("--generator", options->generators,
                      "inputs beside the usual ones: name=number[,number...]");
  command->add_flag("--no-shrink", options->no_shrink, "leave witnesses as they were found");
  command->add_flag("--list", options->list, "the operators that are known");
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
