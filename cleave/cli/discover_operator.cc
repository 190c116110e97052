#include "cleave/cli/discover_operator.h"

#include <algorithm>
#include <filesystem>

#include "cleave/cli/modules.h"
#include "cleave/cli/tensor_options.h"
#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/discover/command_operator.h"
#include "cleave/discover/library.h"
#include "cleave/discover/module_operator.h"
#include "cleave/discover/more_samples.h"
#include "cleave/discover/registry_operator.h"
#include "cleave/graph/text/text.h"

namespace cleave::cli {
namespace {

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
  if (std::holds_alternative<double>(like)) {
    const auto number = number_of<double>(text);
    if (!number) throw_user("--attr {}: '{}' is not a number", name, text);
    return *number;
  }
  if (std::holds_alternative<std::vector<int64_t>>(like)) return parse_list(text);
  return text;
}

// A value of a command's attribute, which nothing else describes.
AttrValue guess_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text.starts_with('[')) return parse_list(text);
  if (const auto whole = number_of<int64_t>(text)) return *whole;
  if (const auto number = number_of<double>(text)) return *number;
  return text;
}

void add_new(std::vector<Sample>& samples, Sample sample) {
  const bool known = std::any_of(samples.begin(), samples.end(), [&](const Sample& s) {
    return to_string(s) == to_string(sample);
  });
  if (!known) samples.push_back(std::move(sample));
}

void apply_attrs(Operator& op, const std::vector<std::string>& attrs, bool is_command) {
  for (const std::string& assignment : attrs) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      throw_user("--attr '{}': write it as name=value[,value...]", assignment);
    const std::string name = assignment.substr(0, equals);
    std::vector<Sample> samples;
    for (const Sample& sample : op.samples) {
      auto it = sample.attrs.find(name);
      if (it == sample.attrs.end() && !is_command)
        throw_user("--attr {}: {} has no such attribute{}{}", name, op.name,
                   sample.attrs.empty() ? "; it has none" : "; it has: ", to_string(sample.attrs));
      for (const std::string& value : split_values(assignment.substr(equals + 1))) {
        Sample changed = sample;
        changed.attrs[name] =
            it == sample.attrs.end() ? guess_value(value) : parse_value(name, value, it->second);
        add_new(samples, std::move(changed));
      }
    }
    op.samples = std::move(samples);
  }
}

// "8x3xf32" -> 8x3 of f32. Without a dtype it stays what it was.
void set_type(TensorDesc& desc, const std::string& text) {
  const size_t last = text.rfind('x');
  const std::string tail = last == std::string::npos ? text : text.substr(last + 1);
  const std::optional<DType> dtype = dtype_from_name(tail);
  if (!dtype) {
    desc.shape = parse_shape(text);
    return;
  }
  desc.dtype = *dtype;
  desc.shape = parse_shape(last == std::string::npos ? "" : text.substr(0, last));
}

std::vector<TensorDesc> operands_of(const std::string& text, std::vector<TensorDesc> operands) {
  const std::vector<std::string> shapes = split(text, ',');
  for (size_t i = 0; i < shapes.size(); ++i) set_type(operands[i], shapes[i]);
  return operands;
}

void apply_shapes(Operator& op, const std::vector<std::string>& texts) {
  std::vector<Sample> samples;
  for (const std::string& text : texts)
    for (Sample sample : op.samples) {
      const size_t given = split(text, ',').size();
      if (sample.operands.size() != given)
        throw_user("--shape: {} takes {} operands, {} shapes given", op.name,
                   sample.operands.size(), given);
      sample.operands = operands_of(text, std::move(sample.operands));
      add_new(samples, std::move(sample));
    }
  op.samples = std::move(samples);
}

// "any", "index:6"
void set_domain(TensorDesc& desc, const std::string& text) {
  const size_t colon = text.find(':');
  const std::string word = text.substr(0, colon);
  static const std::vector<std::pair<std::string, Domain>> words = {
      {"any", Domain::Any},          {"nonzero", Domain::NonZero}, {"positive", Domain::Positive},
      {"bool", Domain::Bool},        {"index", Domain::Index},     {"sorted", Domain::Sorted},
      {"definite", Domain::Definite}};
  const auto it = std::find_if(words.begin(), words.end(), [&](const auto& w) {
    return w.first == word && (w.second == Domain::Index) == (colon != std::string::npos);
  });
  if (it == words.end())
    throw_user(
        "--domain '{}' is none of any, nonzero, positive, bool, index:LIMIT, sorted, "
        "definite",
        text);
  desc.domain = it->second;
  if (desc.domain == Domain::Index) {
    desc.limit = parse_int(text.substr(colon + 1), "--domain index");
    if (desc.limit < 1) throw_user("--domain '{}': the limit must be positive", text);
  }
}

void apply_domains(Operator& op, const std::string& text) {
  const std::vector<std::string> words = split(text, ',');
  for (Sample& sample : op.samples) {
    if (sample.operands.size() != words.size())
      throw_user("--domain: {} takes {} operands, {} domains given", op.name,
                 sample.operands.size(), words.size());
    for (size_t i = 0; i < words.size(); ++i) set_domain(sample.operands[i], words[i]);
  }
}

Operator command_of(const OperatorText& text) {
  const Operator* like = find_operator(text.name);
  std::vector<Sample> samples;
  if (!text.shapes.empty()) {
    for (const std::string& shapes : text.shapes)
      samples.push_back(
          {operands_of(shapes, std::vector<TensorDesc>(split(shapes, ',').size())), {}});
  } else if (like) {
    samples = like->samples;
  } else {
    throw_user("discover --command: give a shape per operand, such as --shape 8x3,8x3xi64");
  }
  Operator op;
  op.name = text.name.empty() ? "command" : text.name;
  op.samples = std::move(samples);
  apply_attrs(op, text.attrs, true);
  return operator_of_command(op.name, text.command, std::move(op.samples), {text.timeout});
}

// An operator is run thousands of times.
void check_sizes(const Operator& op) {
  constexpr int64_t kMostElements = int64_t{1} << 24;
  for (const Sample& sample : op.samples)
    for (const TensorDesc& operand : sample.operands)
      if (num_elements(operand.shape) > kMostElements)
        throw_user(
            "discover: an operand of {} has more than {} elements; rules do not depend on "
            "sizes, so give a smaller --shape",
            to_string(operand.shape), kMostElements);
}

bool is_file(const std::string& name) {
  return name == "-" || name.ends_with(".mlir") || std::filesystem::is_regular_file(name);
}

}  // namespace

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
  const auto number = number_of<int64_t>(text);
  if (!number) throw_user("{}: '{}' is not a whole number", what, text);
  return *number;
}

Operator operator_of_text(const OperatorText& text) {
  Operator op;
  if (!text.command.empty()) {
    op = command_of(text);
  } else {
    if (text.name.empty())
      throw_user(
          "discover: name an operator, a file with a module, or give --command; see cleave "
          "discover --list");
    if (const Operator* known = find_operator(text.name)) {
      op = *known;
    } else if (is_file(text.name)) {
      op = operator_of_module(std::filesystem::path(text.name).stem().string(),
                              read_module(text.name));
    } else if (auto registered = find_registry_operator(text.name)) {
      op = std::move(*registered);
    } else {
      for (const char* framework : {"torch.", "jax.", "numpy.", "np.", "jnp.", "aten."})
        if (text.name.starts_with(framework))
          throw_user("discover: {0} is a function of Python: python -m cleave discover {0}",
                     text.name);
      throw_user("discover: unknown operator '{}'; see cleave discover --list", text.name);
    }
    if (!text.shapes.empty()) apply_shapes(op, text.shapes);
    apply_attrs(op, text.attrs, false);
  }
  if (!text.domains.empty()) apply_domains(op, text.domains);
  check_sizes(op);
  if (!text.command.empty()) add_samples_of_other_ranks(op);
  return op;
}

}  // namespace cleave::cli
