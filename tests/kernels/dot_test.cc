#include "cleave/kernels/dot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "test_arrays.h"

namespace cleave {
namespace {

using namespace cleave::testing;

// Sums over the contracted index, element by element.
std::vector<Number> reference(const Array& lhs, const Array& rhs, const DotDims& dims,
                              DType result) {
  auto free = [](const Array& a, const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
    std::vector<int64_t> rest;
    for (int64_t d = 0; d < static_cast<int64_t>(a.rank()); ++d)
      if (!std::count(x.begin(), x.end(), d) && !std::count(y.begin(), y.end(), d))
        rest.push_back(d);
    return rest;
  };
  const auto lhs_free = free(lhs, dims.lhs_batch, dims.lhs_contract);
  const auto rhs_free = free(rhs, dims.rhs_batch, dims.rhs_contract);
  Shape shape, contracted;
  for (int64_t d : dims.lhs_batch) shape.push_back(lhs.shape()[d]);
  for (int64_t d : lhs_free) shape.push_back(lhs.shape()[d]);
  for (int64_t d : rhs_free) shape.push_back(rhs.shape()[d]);
  for (int64_t d : dims.lhs_contract) contracted.push_back(lhs.shape()[d]);
  std::vector<Number> values;
  for_each_index(shape, [&](const Shape& index) {
    Shape l(lhs.rank()), r(rhs.rank());
    size_t at = 0;
    for (size_t b = 0; b < dims.lhs_batch.size(); ++b)
      l[dims.lhs_batch[b]] = r[dims.rhs_batch[b]] = index[at++];
    for (int64_t d : lhs_free) l[d] = index[at++];
    for (int64_t d : rhs_free) r[d] = index[at++];
    Number sum = 0;
    for_each_index(contracted, [&](const Shape& k) {
      for (size_t c = 0; c < k.size(); ++c)
        l[dims.lhs_contract[c]] = r[dims.rhs_contract[c]] = k[c];
      sum += element(lhs, offset_of(lhs, l)) * element(rhs, offset_of(rhs, r));
    });
    values.push_back(result == DType::Bool ? Number(sum.real() != 0) : sum);
  });
  return values;
}

TEST(Dot, EveryDtypeOverRandomDimensions) {
  std::mt19937 random(1);
  auto size = [&] { return static_cast<int64_t>(random() % 4) + 1; };
  for (int round = 0; round < 40; ++round)
    for (DType dtype : all_dtypes()) {
      if (dtype == DType::I8 || dtype == DType::U8) continue;  // may overflow; see below
      const size_t batch = random() % 3, contract = random() % 3;
      Shape lhs_shape, rhs_shape;
      for (size_t i = 0; i < batch + contract; ++i) lhs_shape.push_back(size());
      rhs_shape = lhs_shape;
      for (size_t i = random() % 3; i > 0; --i) lhs_shape.push_back(size());
      for (size_t i = random() % 3; i > 0; --i) rhs_shape.push_back(size());
      // Shuffles the dimensions; the array stays a view half of the time.
      auto shuffled = [&](const Shape& shape, std::vector<int64_t>& batch_dims,
                          std::vector<int64_t>& contract_dims) {
        std::vector<int64_t> order(shape.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        const Array view = random_array(random, dtype, shape).transpose(order);
        for (size_t i = 0; i < batch + contract; ++i) {
          const auto it = std::find(order.begin(), order.end(), static_cast<int64_t>(i));
          (i < batch ? batch_dims : contract_dims).push_back(it - order.begin());
        }
        return random() % 2 ? view : view.copy();
      };
      DotDims dims;
      const Array lhs = shuffled(lhs_shape, dims.lhs_batch, dims.lhs_contract);
      const Array rhs = shuffled(rhs_shape, dims.rhs_batch, dims.rhs_contract);
      EXPECT_EQ(elements(dot_general(lhs, rhs, dims, dtype)), reference(lhs, rhs, dims, dtype))
          << name(dtype) << " " << to_string(lhs.shape()) << " . " << to_string(rhs.shape());
    }
}

TEST(Dot, LargeEnoughForTheLibraries) {
  std::mt19937 random(2);
  for (DType dtype :
       {DType::F32, DType::F64, DType::C64, DType::C128, DType::BF16, DType::F16, DType::I32})
    for (int mode = 0; mode < 4; ++mode) {
      const Shape lhs_shape = mode & 1 ? Shape{2, 33, 40} : Shape{2, 40, 33};
      const Shape rhs_shape = mode & 2 ? Shape{2, 17, 33} : Shape{2, 33, 17};
      const Array lhs = random_array(random, dtype, lhs_shape, -1, 1);
      const Array rhs = random_array(random, dtype, rhs_shape, -1, 1);
      const DotDims dims{{0}, {0}, {mode & 1 ? 1 : 2}, {mode & 2 ? 2 : 1}};
      EXPECT_EQ(elements(dot_general(lhs, rhs, dims, dtype)), reference(lhs, rhs, dims, dtype))
          << name(dtype) << " mode " << mode;
    }
}

TEST(Dot, VectorsTimesMatricesEitherWayRound) {
  std::mt19937 random(7);
  for (DType dtype : {DType::F32, DType::F64, DType::C64})
    for (auto [m, n] : {std::pair{1, 61}, {61, 1}, {3, 61}, {1, 1}})
      for (int mode = 0; mode < 4; ++mode) {
        constexpr int64_t k = 70;
        const Array lhs = random_array(random, dtype, mode & 1 ? Shape{k, m} : Shape{m, k});
        const Array rhs = random_array(random, dtype, mode & 2 ? Shape{n, k} : Shape{k, n});
        // As views of wider matrices too.
        const Array wide = random_array(random, dtype, {k + 9, k + 9});
        const Array part = wide.slice({2, 3}, rhs.shape());
        const DotDims dims{{}, {}, {mode & 1 ? 0 : 1}, {mode & 2 ? 1 : 0}};
        for (const Array& other : {rhs, part})
          EXPECT_EQ(elements(dot_general(lhs, other, dims, dtype)),
                    reference(lhs, other, dims, dtype))
              << name(dtype) << " " << m << " x " << n << " mode " << mode;
      }
}

TEST(Dot, ResultsOfAnotherDtype) {
  std::mt19937 random(3);
  const std::vector<std::pair<DType, DType>> pairs{
      {DType::I8, DType::I32},   {DType::U8, DType::I32},  {DType::F32, DType::F64},
      {DType::BF16, DType::F32}, {DType::F16, DType::F32}, {DType::F32, DType::BF16}};
  for (auto [from, to] : pairs) {
    const Array lhs = random_array(random, from, {5, 40}, -1, 1);
    const Array rhs = random_array(random, from, {40, 6}, -1, 1);
    const Array result = dot_general(lhs, rhs, {{}, {}, {1}, {0}}, to);
    EXPECT_EQ(result.dtype(), to);
    EXPECT_EQ(elements(result), reference(lhs, rhs, {{}, {}, {1}, {0}}, to));
  }
}

TEST(Dot, IntegersWrapAround) {
  const Array a = make_array(DType::I8, {1, 2}, {100, 100});
  const Array b = make_array(DType::I8, {2, 1}, {2, 1});
  EXPECT_EQ(elements(dot_general(a, b, {{}, {}, {1}, {0}}, DType::I8)),
            std::vector<Number>{300 - 256});
}

TEST(Dot, Bfloat16SumsInFloat32) {
  // Bfloat16 alone would stop counting at 256.
  const Array ones = make_array(DType::BF16, {512}, std::vector<Number>(512, 1));
  EXPECT_EQ(elements(dot_general(ones, ones, {{}, {}, {0}, {0}}, DType::BF16)),
            std::vector<Number>{512});
}

TEST(Dot, EmptyDimensions) {
  const Array a(DType::F32, {3, 0}), b(DType::F32, {0, 2});
  const DotDims dims{{}, {}, {1}, {0}};
  EXPECT_EQ(elements(dot_general(a, b, dims, DType::F32)), std::vector<Number>(6, 0));
  EXPECT_EQ(dot_general(Array(DType::F32, {0, 2}), Array(DType::F32, {2, 4}), dims, DType::F32)
                .num_elements(),
            0);
  EXPECT_EQ(elements(dot_general(Array(DType::BF16, {2, 3, 0}), Array(DType::BF16, {2, 0, 3}),
                                 {{0}, {0}, {2}, {1}}, DType::BF16)),
            std::vector<Number>(18, 0));
}

TEST(Dot, OperandWithStrideZeroAlongTheBatch) {
  std::mt19937 random(4);
  const Array lhs = random_array(random, DType::F32, {8, 3}).broadcast({4, 8, 3}, {1, 2});
  const Array rhs = random_array(random, DType::F32, {4, 3, 5});
  const DotDims dims{{0}, {0}, {2}, {1}};
  EXPECT_EQ(elements(dot_general(lhs, rhs, dims, DType::F32)),
            reference(lhs, rhs, dims, DType::F32));
}

}  // namespace
}  // namespace cleave
