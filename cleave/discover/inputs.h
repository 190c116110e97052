#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cleave/discover/numbers.h"
#include "cleave/discover/operator.h"

namespace cleave {

// What a generator is asked for.
struct FillContext {
  size_t operand = 0;  // which one: no two operands should get the same numbers by accident
  Shape shape;         // with a last dimension of 2 if the numbers are complex
  DType dtype = DType::F64;
  int64_t limit = 0;  // numbers are taken modulo it: 2 of truth values, the limit of indices
};

// A way to fill an operand. The ways are adversarial on purpose: each one exposes rules that the
// others let pass. `fill` returns row-major numbers, which are then moved into the operand's domain
// and range.
struct InputGenerator {
  std::string name;
  std::string description;  // in a sentence, for reports
  std::function<std::vector<double>(const FillContext&, NumberStream&)> fill;
  bool floats_only = false;  // NaN, Inf and fractions: skipped for integer operands
  // Numbers that stand out in one place, so that one shard alone has them. Operands that are
  // partial are split in ways of their own, and not filled so.
  bool one_place = false;
  // An integer operand is filled with the ends of its range among small numbers.
  bool integer_ends = false;
  // All operands get the same numbers, and that is the point of it.
  bool equal_operands = false;
  // Two of the other generators, one of them in a corner; `fill` is not asked. From 1 on, they
  // differ in the numbers of the corner.
  int patchwork = 0;
  // In place of `fill`: an array of the shape and dtype of the operand. Numbers that fit its domain
  // are taken as they are. It may be without a value: then the operand gets normal numbers.
  std::function<std::optional<Array>(const FillContext&, NumberStream&)> make = {};
};

// The general generators and those for categories of ops (unit vectors, singular matrices, ...). A
// caller may append others.
std::vector<InputGenerator> default_generators();

// The number at position i of a run that is a run of another kind for each operand.
//   increasing:   operand 0:  1, 2, 3, ...   operand 1:  8, 9, 10, ...
//   decreasing:   operand 0:  40, 38.5, ...  operand 1:  32.75, 31.25, ...
double increasing(size_t i, const FillContext& context);
double decreasing(size_t i, const FillContext& context);

// Every element is one of `values`, drawn at random. A caller adds this if an operator has numbers
// of its own that matter: thresholds, special codes, the ends of a range.
InputGenerator generator_of_values(std::string name, std::vector<double> values);

// Numbers for one operand: generated, then moved into its domain and rounded to its dtype.
Array make_input(const InputGenerator& generator, const TensorDesc& desc, NumberStream& random,
                 size_t operand);
Array patchwork_input(int which, const TensorDesc& desc, NumberStream& random, size_t operand);

}  // namespace cleave
