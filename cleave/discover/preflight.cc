// What is asked of an operator before anything is decided about it.
#include <algorithm>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/discover/discover.h"

namespace cleave {
namespace {

// Operands for a few calls: plain numbers, ties and random ones.
std::vector<std::vector<Array>> probes(const Sample& sample) {
  const std::vector<InputGenerator> generators = default_generators();
  std::vector<std::vector<Array>> calls;
  for (size_t g : {0, 1, 3}) {
    NumberStream random(g);
    std::vector<Array> operands;
    for (const TensorDesc& desc : sample.operands)
      operands.push_back(make_input(generators[g], desc, random, operands.size()));
    calls.push_back(std::move(operands));
  }
  return calls;
}

// The first number that differs by more than rounding, row-major.
std::optional<size_t> difference(const Array& a, const Array& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return 0;
  const std::vector<double> x = to_doubles(a), y = to_doubles(b);
  const double scale = tolerance_of(a.dtype()) * std::max(magnitude(a), magnitude(b));
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!(std::fabs(x[i] - y[i]) <= scale)) return i;
  }
  return std::nullopt;
}

void require_equal(const Operator& op, const Sample& sample, const std::vector<Array>& first,
                   const std::vector<Array>& second) {
  auto fail = [&](const std::string& what) {
    throw NotDeterministic(op.name,
                           fmt::format("of two equal calls ({}) {}", to_string(sample), what));
  };
  if (first.size() != second.size()) fail("one has more results");
  for (size_t r = 0; r < first.size(); ++r)
    if (const auto i = difference(first[r], second[r])) {
      if (first[r].shape() != second[r].shape() || first[r].dtype() != second[r].dtype())
        fail(fmt::format("result {} has another type", r));
      fail(fmt::format("element {} of result {} is {}, then {}", *i, r, to_doubles(first[r])[*i],
                       to_doubles(second[r])[*i]));
    }
}

// The results, or nothing if the operator does not accept the numbers.
std::optional<std::vector<Array>> try_call(const Operator& op, const Sample& sample,
                                           const std::vector<Array>& operands) {
  try {
    return op.run(sample.attrs, operands);
  } catch (const BrokenOperator&) {
    throw;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Each number of b is that of a, or some units in the last place beside it; `moved` counts those.
bool is_beside(const Array& a, const Array& b, int& moved) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape() || !is_float(a.dtype())) return false;
  constexpr double kUnits = 4;
  const bool wide = a.dtype() == DType::F64;
  if (!wide && a.dtype() != DType::F32) return false;
  const double unit = wide ? 0x1p-52 : 0x1p-23, smallest = wide ? 0x1p-1074 : 0x1p-149;
  const std::vector<double> x = to_doubles(a), y = to_doubles(b);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;
    if (!(std::fabs(x[i] - y[i]) <= kUnits * (unit * std::fabs(x[i]) + smallest))) return false;
    ++moved;
  }
  return true;
}

}  // namespace

NotDeterministic::NotDeterministic(const std::string& op, const std::string& how)
    : UserError(
          fmt::format("discover {}: not deterministic: {}; nothing can be said about it", op, how)),
      how_(how) {}

void require_deterministic(const Operator& op) {
  for (size_t s = 0; s < op.samples.size(); ++s) {
    const Sample& sample = op.samples[s];
    const std::vector<std::vector<Array>> calls = probes(sample);
    std::vector<std::optional<std::vector<Array>>> first;
    for (const auto& operands : calls) first.push_back(try_call(op, sample, operands));
    // A program that has just started answers alike.
    if (s == 0 && op.restart) op.restart();
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto second = try_call(op, sample, calls[i]);
      if (first[i].has_value() != second.has_value())
        throw NotDeterministic(
            op.name, fmt::format("one of two equal calls ({}) is refused", to_string(sample)));
      if (second) require_equal(op, sample, *first[i], *second);
    }
  }
}

bool is_below_rounding(const Operator& op) {
  int moved = 0;
  for (const Sample& sample : op.samples) {
    for (const auto& operands : probes(sample)) {
      const auto results = try_call(op, sample, operands);
      if (!results || results->size() != 1) return false;
      if (std::none_of(operands.begin(), operands.end(), [&](const Array& operand) {
            return is_beside(operand, results->front(), moved);
          }))
        return false;
    }
  }
  return moved > 0;
}

}  // namespace cleave
