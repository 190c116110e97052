#include "cleave/kernels/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "test_arrays.h"

namespace cleave {
namespace {

using namespace cleave::testing;

TEST(Sort, EveryDtypeAlongEveryDimension) {
  std::mt19937 random(31);
  for (DType dtype : all_dtypes()) {
    if (is_complex(dtype)) continue;
    for (int64_t dim = 0; dim < 3; ++dim)
      for (bool descending : {false, true}) {
        const Array x = random_array(random, dtype, {3, 7, 4});
        Array index(DType::I32, x.shape());
        for (int64_t i = 0; i < x.num_elements(); ++i)
          index.data<int32_t>()[i] = static_cast<int32_t>(i);
        const Array keys = sort_keys(x, {.descending = descending});
        const std::vector<Array> sorted = sort_by_keys(std::vector{x, index}, {&keys, 1}, dim);
        for_each_index(x.shape(), [&](const Shape& at) {
          // Each index moves with its value, and neighbours are in order, equal ones as they came.
          const auto origin =
              static_cast<int64_t>(element(sorted[1], offset_of(sorted[1], at)).real());
          EXPECT_EQ(element(sorted[0], offset_of(sorted[0], at)), element(x, origin));
          if (at[dim] == 0) return;
          Shape before = at;
          --before[dim];
          const double a = element(sorted[0], offset_of(sorted[0], before)).real();
          const double b = element(sorted[0], offset_of(sorted[0], at)).real();
          EXPECT_TRUE(descending ? a >= b : a <= b) << name(dtype);
          if (a == b) {
            EXPECT_LT(element(sorted[1], offset_of(sorted[1], before)).real(),
                      static_cast<double>(origin));
          }
        });
      }
  }
}

TEST(Sort, SecondKeysDecideWhereTheFirstAreEqual) {
  const Array a = make_array(DType::I32, {5}, {1, 0, 1, 0, 1});
  const Array b = make_array(DType::F32, {5}, {3, 2, 1, 9, 2});
  const std::vector<Array> keys{sort_keys(a, {}), sort_keys(b, {.descending = true})};
  const std::vector<Array> sorted = sort_by_keys(std::vector{a, b}, keys, 0);
  EXPECT_EQ(elements(sorted[0]), (std::vector<Number>{0, 0, 1, 1, 1}));
  EXPECT_EQ(elements(sorted[1]), (std::vector<Number>{9, 2, 3, 2, 1}));
}

TEST(Sort, TotalOrderAndItsMergers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  const float values[] = {nan, 0.0f, -0.0f, -inf, -nan, inf};
  const Array x = Array::from_bytes(DType::F32, {6}, values);
  auto order = [&](const KeyOrder& how) {
    const Array keys = sort_keys(x, how);
    const Array index = make_array(DType::I32, {6}, {0, 1, 2, 3, 4, 5});
    return elements(sort_by_keys({&index, 1}, {&keys, 1}, 0)[0]);
  };
  EXPECT_EQ(order({}), (std::vector<Number>{4, 3, 2, 1, 5, 0}));
  EXPECT_EQ(order({.merge_zeros = true}), (std::vector<Number>{4, 3, 1, 2, 5, 0}));
  EXPECT_EQ(order({.merge_zeros = true, .merge_nans = true}),
            (std::vector<Number>{3, 1, 2, 5, 0, 4}));
  EXPECT_TRUE(has_nan(x));
  EXPECT_FALSE(has_nan(make_array(DType::BF16, {2}, {1, 2})));
}

TEST(Sort, TopKGivesValuesAndFirstIndices) {
  const Array x = make_array(DType::F16, {2, 4}, {1, 3, 3, 2, 9, 8, 7, 9});
  const std::vector<Array> top = top_k(x, 3);
  EXPECT_EQ(elements(top[0]), (std::vector<Number>{3, 3, 2, 9, 9, 8}));
  EXPECT_EQ(elements(top[1]), (std::vector<Number>{1, 2, 3, 0, 3, 1}));
  EXPECT_EQ(top_k(x, 0)[0].num_elements(), 0);
}

}  // namespace
}  // namespace cleave
