#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cleave/discover/numbers.h"
#include "cleave/discover/operator.h"

namespace cleave {

// A way to fill an operand. The ways are adversarial on purpose: each one exposes rules that the
// others let pass. `fill` gets the shape and returns row-major numbers; `adapt` then moves them
// into the operand's domain.
struct InputGenerator {
  std::string name;
  std::function<std::vector<double>(const Shape&, NumberStream&)> fill;
  bool floats_only = false;  // NaN, Inf and fractions: skipped for integer operands
  // Numbers that stand out in one place, so that one shard alone has them. Operands that are
  // partial are split in ways of their own, and not filled so.
  bool one_place = false;
  // An integer operand is filled with the ends of its range among small numbers.
  bool integer_ends = false;
  // Two of the other generators, one of them in a corner; `fill` is not asked. From 1 on, they
  // differ in the numbers of the corner.
  int patchwork = 0;
};

// The general generators and those for categories of ops (unit vectors, singular matrices, ...). A
// caller may append others.
std::vector<InputGenerator> default_generators();

// Every element is one of `values`, drawn at random. A caller adds this if an operator has numbers
// of its own that matter: thresholds, special codes, the ends of a range.
InputGenerator generator_of_values(std::string name, std::vector<double> values);

// Numbers for one operand: generated, then moved into its domain and rounded to its dtype.
Array make_input(const InputGenerator& generator, const TensorDesc& desc, NumberStream& random);
Array patchwork_input(int which, const TensorDesc& desc, NumberStream& random);

}  // namespace cleave
