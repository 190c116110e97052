#include "cleave/kernels/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "test_arrays.h"

namespace cleave {
namespace {

using namespace cleave::testing;

Number apply(Reducer reducer, DType dtype, Number a, Number b) {
  if (dtype == DType::Bool) {
    const bool x = a.real() != 0, y = b.real() != 0;
    switch (reducer) {
      case Reducer::Sum:
      case Reducer::Max:
      case Reducer::Or:
        return x || y;
      case Reducer::Xor:
        return x != y;
      default:
        return x && y;
    }
  }
  const auto i = static_cast<int64_t>(a.real()), j = static_cast<int64_t>(b.real());
  switch (reducer) {
    case Reducer::Sum:
      return a + b;
    case Reducer::Prod:
      return a * b;
    case Reducer::Max:
      return std::max(a.real(), b.real());
    case Reducer::Min:
      return std::min(a.real(), b.real());
    case Reducer::And:
      return static_cast<double>(i & j);
    case Reducer::Or:
      return static_cast<double>(i | j);
    case Reducer::Xor:
      return static_cast<double>(i ^ j);
  }
  return 0;
}

std::vector<Number> reference(const Array& input, const std::vector<int64_t>& dims, Reducer reducer,
                              Number init) {
  std::vector<bool> folded(input.rank());
  for (int64_t d : dims) folded[d] = true;
  Shape kept;
  for (size_t d = 0; d < input.rank(); ++d)
    if (!folded[d]) kept.push_back(input.shape()[d]);
  std::vector<Number> values(num_elements(kept), init);
  for_each_index(input.shape(), [&](const Shape& index) {
    int64_t at = 0;
    size_t k = 0;
    for (size_t d = 0; d < index.size(); ++d)
      if (!folded[d]) at = at * kept[k++] + index[d];
    values[at] = apply(reducer, input.dtype(), values[at], element(input, offset_of(input, index)));
  });
  return values;
}

constexpr Reducer kReducers[] = {Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min,
                                 Reducer::And, Reducer::Or,   Reducer::Xor};

TEST(Reduce, EveryDtypeAndReducerOverRandomViews) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round)
    for (DType dtype : all_dtypes())
      for (Reducer reducer : kReducers) {
        if (!has_reduce(reducer, dtype)) continue;
        Shape shape;
        for (size_t i = random() % 4; i > 0; --i)
          shape.push_back(static_cast<int64_t>(random() % 4) + 1);
        std::vector<int64_t> order(shape.size()), dims;
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        const int high = reducer == Reducer::Prod ? 1 : is_signed_integer(dtype) ? 1 : 3;
        const int low = is_integer(dtype) && reducer > Reducer::Min ? 0 : -high;
        const Array input = random_array(random, dtype, shape, low, high).transpose(order);
        for (size_t d = 0; d < shape.size(); ++d)
          if (random() % 2) dims.push_back(static_cast<int64_t>(d));
        const Array init = random_array(random, dtype, {}, low, 1);
        EXPECT_EQ(elements(reduce(input, dims, reducer, init)),
                  reference(input, dims, reducer, element(init, 0)))
            << name(dtype) << " " << static_cast<int>(reducer) << " " << to_string(input.shape());
      }
}

TEST(Reduce, LongRowsAndColumns) {
  std::mt19937 random(6);
  for (DType dtype : {DType::F32, DType::I64, DType::F64, DType::BF16})
    for (Reducer reducer : {Reducer::Sum, Reducer::Max, Reducer::Min})
      for (const Shape& shape : {Shape{3, 1001}, Shape{1001, 3}, Shape{70, 2, 65}}) {
        const Array input = random_array(random, dtype, shape, 0, 1);
        for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
          const Array one = make_array(dtype, {}, {1});
          // Sums of up to 256 ones are exact in bfloat16.
          const Array part = reducer == Reducer::Sum && dtype == DType::BF16
                                 ? input.slice(Shape(shape.size(), 0), Shape(shape.size(), 2))
                                 : input;
          EXPECT_EQ(elements(reduce(part, {d}, reducer, one)), reference(part, {d}, reducer, 1));
        }
      }
}

TEST(Reduce, NanWins) {
  for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64})
    for (Reducer reducer : {Reducer::Max, Reducer::Min}) {
      Array input = Array::zeros(dtype, {100});
      set_element(input, 37, std::nan(""));
      const Array result = reduce(input, {0}, reducer, Array::zeros(dtype, {}));
      EXPECT_TRUE(std::isnan(element(result, 0).real()));
    }
}

TEST(Reduce, HalvesSumInFloat32) {
  for (DType dtype : {DType::F16, DType::BF16}) {
    const Array ones = make_array(dtype, {4096}, std::vector<Number>(4096, 1));
    const Array zero = Array::zeros(dtype, {});
    EXPECT_EQ(element(reduce(ones, {0}, Reducer::Sum, zero), 0), Number(4096));
    EXPECT_EQ(element(reduce(ones.broadcast({4096, 3}, {0}), {0}, Reducer::Sum, zero), 2),
              Number(4096));
  }
}

TEST(Reduce, NothingToFoldGivesInit) {
  const Array init = make_array(DType::I32, {}, {9});
  EXPECT_EQ(elements(reduce(Array(DType::I32, {2, 0}), {1}, Reducer::Sum, init)),
            (std::vector<Number>{9, 9}));
}

TEST(Reduce, IdentityChangesNothing) {
  std::mt19937 random(7);
  for (DType dtype : all_dtypes())
    for (Reducer reducer : kReducers) {
      if (!has_reduce(reducer, dtype)) continue;
      const Array input = random_array(random, dtype, {1, 5});
      EXPECT_EQ(elements(reduce(input, {0}, reducer, reduce_identity(reducer, dtype))),
                elements(input));
    }
}

}  // namespace
}  // namespace cleave
