#include <algorithm>
#include <set>
#include <string>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/promotion.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

Equation parse_equation(const std::string& text) {
  Equation equation;
  std::string part;
  size_t i = 0;
  for (; i < text.size() && text.compare(i, 2, "->") != 0; ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == ',') {
      equation.inputs.push_back(std::exchange(part, {}));
    } else if (std::isalpha(static_cast<unsigned char>(c))) {
      if (part.find(c) != std::string::npos)
        throw_user("einsum: '{}' names '{}' twice in one operand", text, c);
      part += c;
    } else {
      throw_user("einsum: '{}': unexpected '{}'; letters, ',' and '->'", text, c);
    }
  }
  equation.inputs.push_back(part);
  if (i < text.size()) {
    for (char c : text.substr(i + 2))
      if (c != ' ') {
        if (equation.output.find(c) != std::string::npos)
          throw_user("einsum: '{}' names '{}' twice in the result", text, c);
        equation.output += c;
      }
    return equation;
  }
  // Without an output: the letters that come once, sorted.
  std::multiset<char> letters;
  for (const std::string& input : equation.inputs) letters.insert(input.begin(), input.end());
  for (char c : std::set<char>(letters.begin(), letters.end()))
    if (letters.count(c) == 1) equation.output += c;
  return equation;
}

struct Labelled {
  ValueId value;
  std::string labels;
};

bool has(const std::string& text, char c) { return text.find(c) != std::string::npos; }

// Letters that nobody else needs are summed out.
Labelled sum_out(GraphBuilder& b, Labelled x, const std::string& needed) {
  std::vector<int64_t> dims;
  std::string rest;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (has(needed, x.labels[i]))
      rest += x.labels[i];
    else
      dims.push_back(static_cast<int64_t>(i));
  }
  if (dims.empty()) return x;
  return {fold(b, x.value, "stablehlo.add", dims), rest};
}

Labelled contract(GraphBuilder& b, Labelled x, Labelled y, const std::string& needed) {
  x = sum_out(b, std::move(x), needed + y.labels);
  y = sum_out(b, std::move(y), needed + x.labels);
  DotDims dims;
  std::string batch, rest;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const char c = x.labels[i];
    const size_t j = y.labels.find(c);
    if (j == std::string::npos) {
      rest += c;
      continue;
    }
    const bool stays = has(needed, c);
    (stays ? dims.lhs_batch : dims.lhs_contract).push_back(static_cast<int64_t>(i));
    (stays ? dims.rhs_batch : dims.rhs_contract).push_back(static_cast<int64_t>(j));
    if (stays) batch += c;
  }
  for (char c : y.labels)
    if (!has(x.labels, c)) rest += c;
  return {emit_dot(b, x.value, y.value, dims), batch + rest};
}

Values einsum_form(GraphBuilder& b, Params params) {
  const std::string text(params.begin(), params.end());
  const Equation equation = parse_equation(text);
  DType dtype = b.dtype(b.arg(0));
  for (size_t i = 1; i < equation.inputs.size(); ++i) dtype = promote(dtype, b.dtype(b.arg(i)));
  Labelled result{};
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    if (equation.inputs[i].size() != b.shape(b.arg(i)).size())
      throw_user("einsum: '{}': operand {} is <{}>", text, i, to_string(b.shape(b.arg(i))));
    Labelled next{cast_to(b, b.arg(i), dtype), equation.inputs[i]};
    std::string needed = equation.output;
    for (size_t j = i + 1; j < equation.inputs.size(); ++j) needed += equation.inputs[j];
    if (i > 0)
      for (size_t p = 0; p < result.labels.size(); ++p)
        if (const size_t q = next.labels.find(result.labels[p]); q != std::string::npos)
          if (b.shape(result.value)[p] != b.shape(next.value)[q])
            throw_user("einsum: '{}': '{}' is {} before operand {} and {} in it", text,
                       result.labels[p], b.shape(result.value)[p], i, b.shape(next.value)[q]);
    result = i == 0 ? sum_out(b, next, needed) : contract(b, result, next, needed);
  }
  std::vector<int64_t> order;
  for (char c : equation.output) {
    const size_t at = result.labels.find(c);
    if (at == std::string::npos) throw_user("einsum: '{}': no operand has '{}'", text, c);
    order.push_back(static_cast<int64_t>(at));
  }
  if (std::is_sorted(order.begin(), order.end())) return {result.value};
  return {b.transpose(result.value, std::move(order))};
}

// ---- ellipses

constexpr std::string_view kDots = "...";

std::vector<std::string> comma_parts(std::string_view text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ',')
      parts.emplace_back();
    else if (c != ' ')
      parts.back() += c;
  }
  return parts;
}

std::string unused_letters(std::string_view equation) {
  std::string letters;
  for (char c = 'A'; c <= 'z'; ++c)
    if (std::isalpha(static_cast<unsigned char>(c)) && equation.find(c) == std::string_view::npos)
      letters += c;
  return letters;
}

// An equation without ellipses, and operands without the dimensions of size 1 that an ellipsis
// stretches.
struct Written {
  std::string equation;
  std::vector<Tensor> operands;
};

// Dimensions behind ellipses are aligned at their ends and get letters that nothing else has.
Written write_ellipses(std::string_view equation, std::span<const Tensor> operands) {
  const size_t arrow = std::min(equation.find("->"), equation.size());
  std::vector<std::string> inputs = comma_parts(equation.substr(0, arrow));
  std::vector<size_t> counts(inputs.size(), 0);
  Shape common;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].find(kDots) == std::string::npos) continue;
    const size_t named = inputs[i].size() - kDots.size(), rank = operands[i].shape().size();
    if (named > rank)
      throw_user("einsum: '{}': operand {} is <{}>", equation, i, to_string(operands[i].shape()));
    counts[i] = rank - named;
    const auto begin = operands[i].shape().begin() + static_cast<int64_t>(inputs[i].find(kDots));
    common =
        broadcast_shapes("einsum", common, Shape(begin, begin + static_cast<int64_t>(counts[i])));
  }
  const std::string free = unused_letters(equation);
  if (common.size() > free.size()) throw_user("einsum: '{}' leaves too few letters", equation);
  const std::string letters = free.substr(0, common.size());
  Written written;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t at = inputs[i].find(kDots);
    Shape shape = operands[i].shape();
    if (at != std::string::npos) {
      std::string own;
      Shape rest(shape.begin(), shape.begin() + static_cast<int64_t>(at));
      for (size_t j = 0; j < counts[i]; ++j) {
        const size_t place = common.size() - counts[i] + j;
        if (shape[at + j] != common[place]) continue;
        own += letters[place];
        rest.push_back(shape[at + j]);
      }
      rest.insert(rest.end(), shape.begin() + static_cast<int64_t>(at + counts[i]), shape.end());
      inputs[i].replace(at, kDots.size(), own);
      shape = rest;
    }
    written.equation += (i ? "," : "") + inputs[i];
    written.operands.push_back(shape == operands[i].shape() ? operands[i]
                                                            : reshape(operands[i], shape));
  }
  std::string output;
  if (arrow < equation.size()) {
    output = comma_parts(equation.substr(arrow + 2))[0];
    const size_t at = output.find(kDots);
    if (at == std::string::npos && !common.empty())
      throw_user("einsum: '{}': the result needs the dimensions of '...' too", equation);
    if (at != std::string::npos) output.replace(at, kDots.size(), letters);
  } else {
    // The dimensions of the ellipsis come first, then letters that come once.
    const std::string named = parse_equation(written.equation).output;
    output = letters;
    for (char c : named)
      if (!has(letters, c)) output += c;
  }
  written.equation += "->" + output;
  return written;
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> operands) {
  const auto inputs = static_cast<size_t>(
      std::count(
          equation.begin(),
          equation.begin() + static_cast<int64_t>(std::min(equation.find("->"), equation.size())),
          ',') +
      1);
  if (inputs != operands.size())
    throw_user("einsum: '{}' takes {} operands, {} are given", equation, inputs, operands.size());
  auto contracted = [](std::string_view text, std::span<const Tensor> tensors) {
    return record_one(einsum_form, std::vector<int64_t>(text.begin(), text.end()), tensors);
  };
  if (equation.find(kDots) == std::string_view::npos) return contracted(equation, operands);
  const Written written = write_ellipses(equation, operands);
  return contracted(written.equation, written.operands);
}

}  // namespace cleave
