#include "cleave/kernels/linalg.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cleave/kernels/dot.h"
#include "test_arrays.h"

namespace cleave {
namespace {

using namespace cleave::testing;

constexpr DType kTypes[] = {DType::F32, DType::F64, DType::C64, DType::C128};

Array conj(const Array& a) {
  std::vector<Number> values = elements(a);
  for (Number& v : values) v = std::conj(v);
  return make_array(a.dtype(), a.shape(), values);
}
Array adjoint(const Array& a) { return conj(a).transpose({0, 2, 1}).copy(); }
Array times(const Array& a, const Array& b) {
  return dot_general(a, b, {{0}, {0}, {2}, {1}}, a.dtype());
}

void expect_near(const Array& a, const Array& b, double tolerance = 2e-4) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = elements(a), y = elements(b);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LT(std::abs(x[i] - y[i]), tolerance) << "element " << i;
}

// Keeps one triangle, with ones or the values on the diagonal.
Array triangle(const Array& a, bool lower, bool unit = false) {
  Array out = a.copy();
  for_each_index(a.shape(), [&](const Shape& at) {
    if (lower ? at[2] > at[1] : at[2] < at[1]) set_element(out, offset_of(out, at), 0);
    if (unit && at[1] == at[2]) set_element(out, offset_of(out, at), 1);
  });
  return out;
}

Array with_diagonal(const Array& a, double value) {
  Array out = a.copy();
  for_each_index(a.shape(), [&](const Shape& at) {
    if (at[1] == at[2]) set_element(out, offset_of(out, at), value);
  });
  return out;
}

TEST(Linalg, CholeskyFactorsMultiplyBack) {
  std::mt19937 random(41);
  for (DType dtype : kTypes)
    for (bool lower : {true, false}) {
      const Array x = with_diagonal(random_array(random, dtype, {2, 5, 5}), 9);
      const Array a = times(x, adjoint(x));
      const Array factor = cholesky(a, lower);
      expect_near(lower ? times(factor, adjoint(factor)) : times(adjoint(factor), factor), a, 2e-2);
      expect_near(triangle(factor, lower), factor, 0.1e-9);
    }
  EXPECT_TRUE(std::isnan(element(cholesky(make_array(DType::F64, {1, 1}, {-1}), true), 0).real()));
}

TEST(Linalg, TriangularSolveInAllItsForms) {
  std::mt19937 random(42);
  for (DType dtype : {DType::F32, DType::F64, DType::C64, DType::C128, DType::F16})
    for (int64_t n : {3, 20})
      for (int mode = 0; mode < 24; ++mode) {
        const bool left = mode & 1, lower = mode & 2, unit = mode & 4;
        const auto form = static_cast<MatrixForm>(mode / 8);
        const Array a = with_diagonal(random_array(random, dtype, {2, n, n}, -1, 1), unit ? 1 : 16);
        const Array x = random_array(random, dtype, left ? Shape{2, n, 4} : Shape{2, 4, n});
        Array op = triangle(a, lower, unit);
        if (form == MatrixForm::Transposed) op = op.transpose({0, 2, 1}).copy();
        if (form == MatrixForm::Adjoint) op = adjoint(op);
        if (unit && n > 3) continue;  // grows without bound
        if (dtype == DType::F16 && n > 3) continue;
        const Array b = left ? times(op, x) : times(x, op);
        expect_near(triangular_solve(a, b, {left, lower, unit, form}), x, 1e-3);
      }
}

TEST(Linalg, LuRowsPermuteBack) {
  std::mt19937 random(43);
  for (DType dtype : kTypes) {
    const Array a = random_array(random, dtype, {2, 4, 4}, -5, 5);
    const std::vector<Array> lu = lapack_getrf(a);
    const Array product = times(triangle(lu[0], true, true), triangle(lu[0], false));
    const Array rows = pivots_to_permutation(lu[1], 4);
    Array permuted(dtype, a.shape());
    for_each_index(a.shape(), [&](const Shape& at) {
      const auto row = static_cast<int64_t>(rows.data<int32_t>()[at[0] * 4 + at[1]]);
      set_element(permuted, offset_of(permuted, at), element(a, offset_of(a, {at[0], row, at[2]})));
    });
    expect_near(product, permuted);
  }
}

TEST(Linalg, QrIsOrthogonalTimesTriangular) {
  std::mt19937 random(44);
  for (DType dtype : kTypes) {
    const Array a = random_array(random, dtype, {2, 5, 3}, -5, 5);
    const std::vector<Array> packed = lapack_geqrf(a);
    const Array q = lapack_orgqr(packed[0], packed[1])[0];
    const Array r = triangle(packed[0], false).slice({0, 0, 0}, {2, 3, 3}).copy();
    expect_near(times(q, r), a);
    expect_near(times(adjoint(q), q), with_diagonal(Array::zeros(dtype, {2, 3, 3}), 1));
    const Array full = with_diagonal(Array::zeros(dtype, {2, 5, 5}), 1);
    const Array big_q = lapack_ormqr(packed[0], packed[1], full, true, false)[0];
    expect_near(times(adjoint(big_q), big_q), full);
    const Array none = Array::zeros(DType::I32, {2, 3});
    const std::vector<Array> pivoted = lapack_geqp3(a, none);
    EXPECT_GT(std::abs(element(pivoted[0], 0)) + 1e-4, std::abs(element(pivoted[0], 4)));
  }
}

TEST(Linalg, SingularAndEigenvaluesRebuildTheMatrix) {
  std::mt19937 random(45);
  for (DType dtype : kTypes) {
    const Array a = random_array(random, dtype, {2, 4, 3}, -5, 5);
    const std::vector<Array> svd = lapack_gesdd(a, 'S');
    Array scaled = svd[2].copy();  // u with columns times s
    for_each_index(scaled.shape(), [&](const Shape& at) {
      const int64_t offset = offset_of(scaled, at);
      set_element(scaled, offset, element(scaled, offset) * element(svd[1], at[0] * 3 + at[2]));
    });
    expect_near(times(scaled, svd[3]), a);
    EXPECT_EQ(lapack_gesdd(a, 'A')[2].shape(), (Shape{2, 4, 4}));

    const Array x = random_array(random, dtype, {2, 4, 4}), hermitian = times(x, adjoint(x));
    const std::vector<Array> eigh = lapack_syevd(hermitian, 'V', 'L');
    Array vw = eigh[0].copy();
    for_each_index(vw.shape(), [&](const Shape& at) {
      const int64_t offset = offset_of(vw, at);
      set_element(vw, offset, element(vw, offset) * element(eigh[1], at[0] * 4 + at[2]));
    });
    expect_near(times(vw, adjoint(eigh[0])), hermitian, 1e-3);
  }
}

TEST(Linalg, EigenvaluesOfARotationAreComplex) {
  const Array a = make_array(DType::F64, {1, 2, 2}, {0, -2, 2, 0});
  const std::vector<Array> parts = lapack_geev(a, 'N', 'V');
  EXPECT_EQ(elements(parts[0]), (std::vector<Number>{0, 0}));
  EXPECT_NEAR(element(parts[1], 0).real(), 2, 1e-12);
  EXPECT_NEAR(element(parts[1], 1).real(), -2, 1e-12);
  const auto v = elements(parts[3]);  // columns are vectors: a v = 2i v
  EXPECT_LT(std::abs(-2.0 * v[2] - Number(0, 2) * v[0]), 1e-12);
}

TEST(Linalg, TridiagonalSystems) {
  const Array lower = make_array(DType::F64, {3}, {0, 1, 1}),
              upper = make_array(DType::F64, {3}, {1, 1, 0});
  const Array diagonal = make_array(DType::F64, {3}, {4, 4, 4});
  const Array b = make_array(DType::F64, {3, 1}, {5, 6, 5});
  expect_near(lapack_gtsv(lower, diagonal, upper, b)[3], make_array(DType::F64, {3, 1}, {1, 1, 1}),
              1e-12);
}

}  // namespace
}  // namespace cleave
