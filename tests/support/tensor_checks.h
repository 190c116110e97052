#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "cleave/runtime/tensor.h"

namespace cleave {

// Numbers between -1 and 1 that follow no line.
inline Tensor ramp(Shape shape, double start = 0.1) {
  std::vector<double> values(static_cast<size_t>(num_elements(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(start + 0.7 * static_cast<double>(i * i % 31));
  return Tensor::from(DType::F64, std::move(shape), values);
}

inline void expect_near(const Tensor& a, const Tensor& b, double tolerance = 1e-10) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << i;
}

}  // namespace cleave
