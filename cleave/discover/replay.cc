#include "cleave/discover/replay.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/kernels/dispatch.h"

namespace cleave {
namespace {

// -0 is 0 to a reader.
std::string number_text(double x) { return fmt::format("{}", x == 0 ? 0.0 : x); }

// Integers of 64 bits have more digits than a double.
std::vector<std::string> number_texts(const Array& array) {
  std::vector<std::string> texts;
  if (is_integer(array.dtype())) {
    const Array packed = array.contiguous();
    visit_integer(array.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < packed.num_elements(); ++i)
        texts.push_back(std::to_string(packed.data<T>()[i]));
    });
  } else {
    for (double x : to_doubles(array)) texts.push_back(number_text(x));
  }
  return texts;
}

std::string numbers_text(const Array& array) {
  return fmt::format("[{}]", fmt::join(number_texts(array), ", "));
}

// The first few, in one line for people.
std::string brief_text(const Array& array) {
  constexpr size_t kShown = 6;
  std::vector<std::string> texts = number_texts(array);
  if (texts.size() > kShown) {
    texts.resize(kShown);
    texts.emplace_back("...");
  }
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string head(const std::string& op, const Witness& witness) {
  std::string operands;
  for (const Placement& placement : witness.combination.operands)
    operands += (operands.empty() ? "" : ", ") + to_string(placement);
  return fmt::format(
      "{}({})  {} -> {}{}  on {} devices\n", op, to_string(witness.sample), operands,
      witness.combination.result ? fmt::format("result {}: ", witness.combination.result) : "",
      to_string(witness.combination.placement), witness.w);
}

std::string outcome(const Witness& witness) {
  return fmt::format("element {}: expected {}, the devices give {}", witness.element,
                     number_text(witness.expected), number_text(witness.actual));
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

// At a separator outside of brackets and quotes.
std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (char c : text) {
    if (c == '\'') quoted = !quoted;
    if (!quoted) depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c == separator && depth == 0 && !quoted) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (std::string& part : parts) part = trimmed(part);
  return parts;
}

template <typename Number>
std::vector<Number> numbers_of(const std::string& text) {
  std::vector<Number> numbers;
  if (!text.starts_with('[') || !text.ends_with(']'))
    throw_user("'{}' is no list of numbers such as [1, 2]", text);
  if (text == "[]") return numbers;
  for (const std::string& item : split_list(text.substr(1, text.size() - 2), ',')) {
    const auto number = number_of<Number>(item);
    if (!number) throw_user("'{}' is not a number", item);
    numbers.push_back(*number);
  }
  return numbers;
}

AttrValue value_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text.starts_with('[')) return numbers_of<int64_t>(text);
  if (text.size() > 1 && text.starts_with('\'')) return text.substr(1, text.size() - 2);
  if (const auto whole = number_of<int64_t>(text)) return *whole;
  if (const auto number = number_of<double>(text)) return *number;
  throw_user("'{}' is no value of an attribute", text);
}

// "4x3 f64", or "f64" of a scalar
TensorDesc desc_of(const std::string& text) {
  TensorDesc desc;
  const size_t space = text.find(' ');
  const std::string dtype = space == std::string::npos ? text : text.substr(space + 1);
  const std::optional<DType> known = dtype_from_name(dtype);
  if (!known) throw_user("'{}' is no type such as 4x3 f64", text);
  desc.dtype = *known;
  if (space == std::string::npos) return desc;
  for (const std::string& size : split_list(text.substr(0, space), 'x')) {
    const auto number = number_of<int64_t>(size);
    if (!number || *number < 0) throw_user("'{}' is no type such as 4x3 f64", text);
    desc.shape.push_back(*number);
  }
  return desc;
}

Sample sample_of_text(const std::string& text) {
  Sample sample;
  const std::vector<std::string> parts = split_list(text, ';');
  for (const std::string& operand : split_list(parts[0], ','))
    sample.operands.push_back(desc_of(operand));
  if (parts.size() < 2) return sample;
  for (const std::string& attr : split_list(parts[1], ',')) {
    const size_t equals = attr.find('=');
    if (equals == std::string::npos) throw_user("'{}' is no attribute such as dim=0", attr);
    sample.attrs[attr.substr(0, equals)] = value_of(attr.substr(equals + 1));
  }
  return sample;
}

// "cross(1x3 f64, 1x3 f64; dim=1)  R, P(sum) -> R  on 2 devices"
void parse_head(const std::string& line, WitnessText& text) {
  const size_t open = line.find('('), close = line.find(")  "), on = line.rfind("  on ");
  const size_t arrow = line.find(" -> ", close == std::string::npos ? 0 : close);
  if (open == std::string::npos || close == std::string::npos || on == std::string::npos ||
      arrow == std::string::npos || on < arrow || open > close)
    throw_user("'{}' is no line such as: relu(1 f64)  P(sum) -> P(sum)  on 2 devices", line);
  Witness& witness = text.witness;
  text.op = line.substr(0, open);
  witness.sample = sample_of_text(line.substr(open + 1, close - open - 1));
  witness.combination.operands = parse_placements(line.substr(close + 3, arrow - close - 3));
  std::string result = line.substr(arrow + 4, on - arrow - 4);
  if (result.starts_with("result ")) {
    const size_t colon = result.find(": ");
    const auto index = number_of<size_t>(result.substr(7, colon - 7));
    if (colon == std::string::npos || !index) throw_user("'{}' names no result", result);
    witness.combination.result = *index;
    result = result.substr(colon + 2);
  }
  witness.combination.placement = parse_placements(result).at(0);
  const std::string devices = line.substr(on + 5);
  const auto w = number_of<int>(devices.substr(0, devices.find(' ')));
  if (!w || *w < 1 || *w > 1024) throw_user("'{}' is no number of devices", devices);
  witness.w = *w;
  if (witness.combination.operands.size() != witness.sample.operands.size())
    throw_user("{} placements for {} operands", witness.combination.operands.size(),
               witness.sample.operands.size());
}

Array array_of(const TensorDesc& desc, const std::string& text) {
  const std::vector<double> numbers = numbers_of<double>(text);
  const auto size =
      static_cast<size_t>(num_elements(desc.shape)) * (is_complex(desc.dtype) ? 2 : 1);
  if (numbers.size() != size)
    throw_user("{} numbers for a tensor of {}", numbers.size(), to_string(desc.shape));
  if (!is_integer(desc.dtype)) return from_doubles(desc.dtype, desc.shape, numbers);
  Array array(desc.dtype, desc.shape);
  const std::vector<std::string> items = split_list(text.substr(1, text.size() - 2), ',');
  visit_integer(desc.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < size; ++i) {
      const auto whole = number_of<T>(items[i]);
      if (!whole) throw_user("'{}' is no number of {}", items[i], name(desc.dtype));
      array.data<T>()[i] = *whole;
    }
  });
  return array;
}

// "operand 1 P(sum) = [1, 1] as [0, 1] [1, 0]"
void parse_operand(const std::string& line, Witness& witness) {
  const size_t i = witness.operands.size();
  const size_t equals = line.find(" = "), as = line.find(" as ");
  if (!line.starts_with("operand ") || equals == std::string::npos)
    throw_user("'{}' is no line such as: operand 0 R = [1, 2]", line);
  const TensorDesc& desc = witness.sample.operands[i];
  const Placement& placement = witness.combination.operands[i];
  witness.operands.push_back(array_of(desc, line.substr(equals + 3, as - equals - 3)));
  if (!placement.is_partial()) {
    NumberStream random(0);
    witness.devices.push_back(
        *represent(witness.operands.back(), placement, witness.w, Decomposition::Equal, random));
    return;
  }
  std::vector<Array> parts;
  if (as != std::string::npos)
    for (const std::string& part : split_list(line.substr(as + 4), ' '))
      parts.push_back(array_of(desc, part));
  if (parts.size() != static_cast<size_t>(witness.w))
    throw_user("operand {} is partial: {} parts for {} devices", i, parts.size(), witness.w);
  witness.devices.push_back(std::move(parts));
}

}  // namespace

std::string to_string(const std::string& op, const Witness& witness) {
  std::string text = head(op, witness);
  for (size_t i = 0; i < witness.operands.size(); ++i) {
    text += fmt::format("  operand {} {} = {}", i, to_string(witness.combination.operands[i]),
                        numbers_text(witness.operands[i]));
    if (witness.combination.operands[i].is_partial()) {
      text += " as";
      for (const Array& part : witness.devices[i]) text += " " + numbers_text(part);
    }
    text += "\n";
  }
  return text + "  " + outcome(witness);
}

std::string short_text(const Witness& witness) {
  std::string text;
  for (size_t i = 0; i < witness.operands.size(); ++i) {
    text += (i ? ", " : "") + brief_text(witness.operands[i]);
    if (!witness.combination.operands[i].is_partial()) continue;
    for (size_t device = 0; device < witness.devices[i].size(); ++device)
      text += (device ? " " : " as ") + brief_text(witness.devices[i][device]);
  }
  if (!witness.sample.attrs.empty()) text += "; " + to_string(witness.sample.attrs);
  if (witness.w != 2) text += fmt::format("; {} devices", witness.w);
  return text + "; " + outcome(witness);
}

WitnessText parse_witness(std::string_view text) {
  WitnessText result;
  int line_number = 0;
  for (const std::string& line : split_list(text, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    try {
      if (result.op.empty()) {
        parse_head(line, result);
      } else if (result.witness.operands.size() < result.witness.sample.operands.size()) {
        parse_operand(line, result.witness);
      }
    } catch (const UserError& error) {
      throw_user("line {}: {}", line_number, error.what());
    }
  }
  if (result.op.empty()) throw_user("there is no witness in the text");
  if (result.witness.operands.size() != result.witness.sample.operands.size())
    throw_user("the witness of {} has {} operands, {} lines given", result.op,
               result.witness.sample.operands.size(), result.witness.operands.size());
  return result;
}

std::string replay(const Operator& op, Witness witness) {
  // A number without a point may be meant as a real one.
  if (!op.samples.empty())
    for (auto& [name, value] : witness.sample.attrs) {
      const auto it = op.samples.front().attrs.find(name);
      if (it != op.samples.front().attrs.end() && std::holds_alternative<double>(it->second))
        if (const auto* whole = std::get_if<int64_t>(&value)) value = static_cast<double>(*whole);
    }
  const Trial trial{witness.w, witness.operands, witness.devices};
  TrialOutputs outputs;
  const TrialResult result = run_trial(op, witness.sample, witness.combination, trial, &outputs);
  std::string text = head(op.name, witness);
  if (outputs.truth.valid())
    text += fmt::format("  the true result: {}\n", numbers_text(outputs.truth));
  for (size_t device = 0; device < outputs.devices.size(); ++device)
    text += fmt::format("  device {}: {}\n", device, numbers_text(outputs.devices[device]));
  if (result.rejected) return text + "  rejected: " + result.error + "\n";
  witness.element = result.detail.element;
  witness.expected = result.detail.expected;
  witness.actual = result.detail.actual;
  switch (result.match) {
    case Match::Yes:
      return text + "  holds here\n";
    case Match::Shape:
      return text + "  rejected: the shards have another shape\n";
    case Match::NonFinite:
      return text + "  no finding: " + outcome(witness) + "\n";
    case Match::No:
      break;
  }
  return text + "  refuted: " + outcome(witness) + "\n";
}

}  // namespace cleave
