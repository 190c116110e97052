// What generators give to the operands of a call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cleave/discover/inputs.h"

namespace cleave {
namespace {

bool same_numbers(const Array& a, const Array& b) {
  const std::vector<double> x = to_doubles(a), y = to_doubles(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](double p, double q) { return p == q || (std::isnan(p) && std::isnan(q)); });
}

// x - x, x / x and cross(x, x) hide what is wrong.
TEST(Inputs, NoTwoOperandsGetTheSameNumbers) {
  const std::vector<TensorDesc> kinds = {
      {DType::F64, {6, 4}},
      {DType::F32, {24}},
      {DType::I32, {6, 4}},
      {DType::I8, {24}},
      {DType::C64, {4, 3}},
      {DType::Bool, {6, 4}},
      {DType::F64, {6, 4}, Domain::Positive},
      {DType::F64, {6, 4}, Domain::Sorted},
      {DType::I64, {6, 4}, Domain::Index, 5},
      {DType::F64, {24}, Domain::Bool},
  };
  for (const TensorDesc& desc : kinds)
    for (const InputGenerator& generator : default_generators()) {
      if (generator.floats_only && !has_fractions(desc.dtype)) continue;
      NumberStream random(3);
      std::vector<Array> operands;
      // One constant among truth values is true or false, and so are three operands.
      const bool two = desc.dtype == DType::Bool || desc.domain == Domain::Bool;
      for (size_t i = 0; i < (two ? 2 : 4); ++i)
        operands.push_back(make_input(generator, desc, random, i));
      for (size_t i = 0; i < operands.size(); ++i)
        for (size_t j = i + 1; j < operands.size(); ++j)
          EXPECT_EQ(same_numbers(operands[i], operands[j]), generator.equal_operands)
              << generator.name << " of " << name(desc.dtype) << ", operands " << i << " and " << j;
    }
}

TEST(Inputs, EveryGeneratorSaysWhatItGives) {
  for (const InputGenerator& generator : default_generators())
    EXPECT_TRUE(generator.description.ends_with('.')) << generator.name;
  EXPECT_EQ(generator_of_values("codes", {1, 2.5}).description,
            "Drawn from these numbers: 1, 2.5.");
}

TEST(Inputs, AGeneratorIsToldWhatItIsFor) {
  InputGenerator generator;
  generator.name = "own";
  generator.make = [](const FillContext& context, NumberStream&) -> std::optional<Array> {
    if (context.operand == 1) return std::nullopt;
    const std::vector<double> numbers(static_cast<size_t>(num_elements(context.shape)),
                                      static_cast<double>(context.operand) - 7);
    return from_doubles(context.dtype, context.shape, numbers);
  };
  NumberStream random(0);
  EXPECT_EQ(to_doubles(make_input(generator, {DType::F32, {2}}, random, 2)),
            (std::vector<double>{-5, -5}));
  EXPECT_EQ(to_doubles(make_input(generator, {DType::F32, {2}, Domain::Positive}, random, 0)),
            (std::vector<double>{7, 7}));
  EXPECT_EQ(make_input(generator, {DType::F64, {3}}, random, 1).shape(), Shape{3});
}

}  // namespace
}  // namespace cleave
