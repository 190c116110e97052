#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/core/placement.h"
#include "cleave/discover/numbers.h"

namespace cleave {

// How the parts of a partial operand are made. A rule must hold for every decomposition; each of
// these breaks rules that the others let pass.
enum class Decomposition : uint8_t {
  Holder,    // one random device holds an element, the others the identity (sum) or far less (max)
  Gaps,      // parts differ over many scales, signs mixed, every device different
  Ties,      // several devices hold the same
  Equal,     // x/w everywhere; identical copies for max and min
  Opposite,  // large parts that cancel
};
inline constexpr int kNumDecompositions = 5;
std::string_view name(Decomposition decomposition);

// The arrays of `w` devices that represent `value` under `placement` on one mesh axis. Nothing
// if this dtype cannot be decomposed so (P(avg) of integers that w does not divide, P(sum) of
// bool, ...).
std::optional<std::vector<Array>> represent(const Array& value, const Placement& placement, int w,
                                            Decomposition how, NumberStream& random);

// Whether the arrays of the devices represent `value` under `placement`.
enum class Match : uint8_t {
  Yes,
  No,         // another number, and both are finite
  Shape,      // the arrays have another shape or dtype than the placement asks for
  NonFinite,  // differs only where the value or an array is NaN or infinite
};
struct MatchResult {
  Match match = Match::Yes;
  int64_t element = -1;  // the first that differs, row-major in the value
  double expected = 0;
  double actual = 0;
};
// Numbers may differ by `slack`, and by `tolerance` relative to the largest number around; both
// zero compare exactly. The slack covers what operands that cancel leave behind.
struct Tolerance {
  double relative = 0;
  double slack = 0;
  // The slack of each device, in place of the one above. It is used if every device's part of a
  // sharded result comes from its own numbers, since a huge number on another device then excuses
  // nothing.
  std::vector<double> slack_of_device = {};
};
MatchResult represents(const std::vector<Array>& devices, const Array& value,
                       const Placement& placement, const Tolerance& tolerance);

// A true result, with what every comparison asks of it.
struct TrueValue {
  explicit TrueValue(Array value);
  Array array;
  std::vector<double> numbers;
  double magnitude = 0;
  bool informative = false;  // some number is neither zero, NaN nor infinite
};
// The same for many placements of one result: what is common to them is computed once.
class OutputMatcher {
 public:
  OutputMatcher(const std::vector<Array>& devices, const TrueValue& value)
      : devices_(devices), value_(value) {}
  MatchResult match(const Placement& placement, const Tolerance& tolerance);

 private:
  const std::vector<double>& numbers(size_t device);
  MatchResult match_partial(ReduceOp op, const Tolerance& tolerance);
  MatchResult match_shard(int dim, const Tolerance& tolerance);

  const std::vector<Array>& devices_;
  const TrueValue& value_;
  std::vector<std::vector<double>> numbers_;  // by device, made at first use
};
double magnitude(const Array& array);  // the largest finite number, without its sign
// What rounding in this dtype may change, with room for a few operations; 0 for integers.
double tolerance_of(DType dtype);

}  // namespace cleave
