#include <fmt/core.h>

#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/core/error.h"
#include "cleave/core/text_cursor.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/library.h"

namespace cleave::cli {
namespace {

struct Options {
  std::string op;
  std::string shapes;
  std::vector<std::string> attrs;
  std::string worlds = "2,3,4";
  std::string format = "table";
  std::string emit;
  uint64_t seed = 0;
  bool list = false;
  bool all = false;
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

// A value as the operator's own samples write this attribute.
AttrValue parse_value(const std::string& name, const std::string& text, const AttrValue& like) {
  if (std::holds_alternative<bool>(like)) {
    if (text != "true" && text != "false")
      throw_user("--attr {}: '{}' is neither true nor false", name, text);
    return text == "true";
  }
  if (std::holds_alternative<int64_t>(like)) return parse_int(text, "--attr");
  if (std::holds_alternative<double>(like)) return std::stod(text);
  if (std::holds_alternative<std::vector<int64_t>>(like)) return parse_shape(text);
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
      for (const std::string& value : split(assignment.substr(equals + 1), ',')) {
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

// Every claim of every rule in the registry, by execution.
void certify_registry(const DiscoverOptions& settings) {
  size_t claims = 0, untestable = 0, incorrect = 0;
  const std::vector<Graph>& samples = registry_samples();
  for (size_t i = 0; i < samples.size(); ++i) {
    fmt::print(stderr, "\r{} of {} samples", i + 1, samples.size());
    for (const Claim& claim : certify(samples[i], settings)) {
      ++claims;
      untestable += claim.verdict == VerdictKind::Untestable;
      if (claim.verdict != VerdictKind::Refuted && claim.verdict != VerdictKind::Rejected) continue;
      ++incorrect;
      fmt::print("incorrect  {}\n", to_string(claim));
    }
  }
  fmt::print(stderr, "\n");
  for (const std::string& name : ops_without_sample()) fmt::print("no sample  {}\n", name);
  fmt::print("{} samples, {} claims: {} incorrect, {} untestable\n", samples.size(), claims,
             incorrect, untestable);
  if (incorrect) throw CLI::RuntimeError(1);
}

void run(const Options& options) {
  if (options.list) {
    for (const Operator& op : operator_library())
      fmt::print("{:<16} {}\n", op.name, to_string(op.samples.front()));
    return;
  }
  if (options.all) {
    DiscoverOptions settings;
    settings.seed = options.seed;
    certify_registry(settings);
    return;
  }
  const Operator* known = find_operator(options.op);
  if (!known) throw_user("discover: unknown operator '{}'; see cleave discover --list", options.op);
  Operator op = *known;
  if (!options.shapes.empty()) apply_shapes(op, options.shapes);
  apply_attrs(op, options.attrs);
  DiscoverOptions settings;
  settings.seed = options.seed;
  settings.worlds.clear();
  for (const std::string& w : split(options.worlds, ',')) {
    settings.worlds.push_back(static_cast<int>(parse_int(w, "--world")));
    if (settings.worlds.back() < 2) throw_user("--world: a mesh axis needs at least 2 devices");
  }
  const Discovery discovery = discover(op, settings);
  if (!options.emit.empty()) {
    fmt::print("{}", options.emit == "cleave"    ? emit_cleave(discovery)
                     : options.emit == "dtensor" ? emit_dtensor(discovery)
                     : options.emit == "shardy"  ? emit_shardy(discovery)
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
  command->add_option("operator", options->op,
                      "an operator of the library, such as cross or softmax");
  command->add_option("--shape", options->shapes, "a shape per operand, such as 8x3,8x3");
  command->add_option("--attr", options->attrs, "values to sweep: dim=0,1")->take_all();
  command->add_option("--world", options->worlds, "numbers of devices to try")
      ->capture_default_str();
  command->add_option("--format", options->format, "table, yaml or json")
      ->check(CLI::IsMember({"table", "yaml", "json"}))
      ->capture_default_str();
  command
      ->add_option("--emit", options->emit,
                   "rule code for review: cleave, dtensor, shardy or tests")
      ->check(CLI::IsMember({"cleave", "dtensor", "shardy", "tests"}));
  command->add_option("--seed", options->seed, "of the random inputs and decompositions")
      ->capture_default_str();
  command->add_flag("--all,--diff", options->all,
                    "certify every rule of the op registry by execution");
  command->add_flag("--list", options->list, "the operators that are known");
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
