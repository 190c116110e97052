#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cleave/kernels/combine.h"
#include "cleave/kernels/elementwise.h"
#include "tests/ops/op_harness.h"

namespace cleave {
namespace {

constexpr int64_t kSize = 64;
constexpr size_t kParts = 3;

bool knows(ReduceOp op, DType dtype) {
  const bool bits = op == ReduceOp::And || op == ReduceOp::Or;
  if (dtype == DType::Bool) return bits;
  if (is_integer(dtype)) return op != ReduceOp::Avg;
  return !bits;
}

Array random_array(DType dtype, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-3, 3);
  std::vector<double> data(kSize);
  for (double& value : data) value = dtype == DType::Bool ? uniform(random) > 0 : uniform(random);
  const Array wide = array<double>(DType::F64, {kSize}, data);
  // Whole ranges of integers, so that sums wrap.
  if (!is_integer(dtype)) return convert(wide, dtype);
  const Array factor = Array::scalar<double>(DType::F64, std::exp2(bit_width(dtype) - 2) / 1.6);
  return convert(binary(BinaryOp::Multiply, wide, splat(factor, {kSize})), dtype);
}

Array combine(ReduceOp op, const std::vector<Array>& parts) {
  std::vector<Array> packed;
  std::vector<const std::byte*> pointers;
  for (const Array& part : parts) packed.push_back(part.contiguous());
  for (const Array& part : packed) pointers.push_back(part.raw());
  Array result(parts[0].dtype(), parts[0].shape());
  combine_parts(op, result.dtype(), pointers, result.raw(), 0, result.num_elements());
  return result;
}

// Each row says: the op of the combined parts is the combination of the op's results on the parts.
void check_rows(const OneOp& op, const std::vector<DType>& dtypes, std::mt19937& random) {
  for (const PartialRow& row : op.partial()) {
    bool defined = true;
    for (size_t i = 0; i < dtypes.size(); ++i)
      defined &= !row.operands[i] || knows(row.in, dtypes[i]);
    if (!defined || !knows(row.out, op.infer()[0].dtype)) continue;
    std::vector<std::vector<Array>> parts(kParts, std::vector<Array>(dtypes.size()));
    std::vector<Array> whole(dtypes.size());
    double largest = 1;
    for (size_t i = 0; i < dtypes.size(); ++i) {
      std::vector<Array> of_operand;
      const Array complete = random_array(dtypes[i], random);
      for (size_t p = 0; p < kParts; ++p) {
        of_operand.push_back(row.operands[i] ? random_array(dtypes[i], random) : complete);
        parts[p][i] = of_operand.back();
      }
      whole[i] = row.operands[i] ? combine(row.in, of_operand) : complete;
    }
    std::vector<Array> results;
    for (size_t p = 0; p < kParts; ++p) {
      results.push_back(op.run(parts[p])[0]);
      if (is_float(results.back().dtype()))
        for (double v : values<double>(convert(results.back(), DType::F64)))
          if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    }
    const Array expected = op.run(whole)[0], actual = combine(row.out, results);
    const std::string what = op.node().name() + " " + std::string(name(dtypes[0])) + ": " +
                             std::string(name(row.in)) + " -> " + std::string(name(row.out));
    if (!is_float(expected.dtype())) {
      EXPECT_TRUE(identical(expected, actual)) << what;
      continue;
    }
    const auto a = values<double>(convert(expected, DType::F64));
    const auto b = values<double>(convert(actual, DType::F64));
    const bool coarse = expected.dtype() == DType::BF16 || dtypes[0] == DType::BF16;
    const double unit = coarse ? 2e-2 : 1e-5;
    for (int64_t i = 0; i < kSize; ++i) {
      const bool same = (std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i] ||
                        std::abs(a[i] - b[i]) <= unit * largest;
      EXPECT_TRUE(same) << what << " gives " << b[i] << ", not " << a[i];
    }
  }
}

TEST(PartialTransfer, RowsOfElementwiseOpsHoldByExecution) {
  std::mt19937 random(11);
  size_t checked = 0;
  for (const auto& [name, def] : op_registry().ops()) {
    if (!def.has(kElementwise) || !def.partial || name == "stablehlo.convert") continue;
    for (DType dtype : {DType::F32, DType::I32, DType::U8, DType::I64, DType::Bool}) {
      std::vector<DType> dtypes;
      AttrDict attributes = attrs({{"exponent_bits", int_attr(5)}, {"mantissa_bits", int_attr(6)}});
      for (size_t count = 1; count <= 3 && dtypes.empty(); ++count) {
        std::vector<DType> candidate(count, dtype);
        if (name == "stablehlo.select") candidate[0] = DType::Bool;
        std::vector<Type> types;
        for (DType operand : candidate) types.push_back(tensor(operand, {kSize}));
        try {
          const OneOp probe(name, types, {}, attributes);
          probe.infer();
          dtypes = candidate;
        } catch (const std::exception&) {
        }
      }
      if (dtypes.empty()) continue;
      std::vector<Type> types;
      for (DType operand : dtypes) types.push_back(tensor(operand, {kSize}));
      const std::vector<Type> results = OneOp(name, types, {}, attributes).infer();
      for (int repeat = 0; repeat < 3; ++repeat)
        check_rows(OneOp(name, types, results, attributes), dtypes, random);
      ++checked;
    }
  }
  EXPECT_GT(checked, 50u);
}

TEST(PartialTransfer, RowsOfConvertHoldByExecution) {
  std::mt19937 random(12);
  for (DType from :
       {DType::Bool, DType::I8, DType::I32, DType::U16, DType::BF16, DType::F32, DType::F64})
    for (DType to :
         {DType::Bool, DType::I16, DType::I64, DType::U32, DType::BF16, DType::F32, DType::F64})
      check_rows(OneOp("stablehlo.convert", {tensor(from, {kSize})}, {tensor(to, {kSize})}), {from},
                 random);
}

}  // namespace
}  // namespace cleave
