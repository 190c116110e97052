#pragma once

#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include "cleave/runtime/promotion.h"
#include "cleave/runtime/tensor.h"

namespace cleave {

// Numbers in braces, nested to any depth.
class Numbers {
 public:
  Numbers() = default;  // {}: none
  template <typename T>
  requires std::is_arithmetic_v<T> Numbers(T value) : number_(Scalar(value)) {}
  Numbers(std::complex<double> value) : number_(Scalar(value)) {}
  Numbers(std::initializer_list<Numbers> list) : list_(list) {}

  const std::optional<Scalar>& number() const { return number_; }
  const std::vector<Numbers>& list() const { return list_; }

 private:
  std::optional<Scalar> number_;
  std::vector<Numbers> list_;
};

// A tensor of the numbers of the program's text. Without a dtype: bool, i32, f32 or complex<f32>,
// by the highest kind among them. Lists of different lengths side by side, and numbers that the
// dtype does not hold, are UserErrors.
//   tensor({{1, 2}, {3, 4}})             tensor<2x2xi32>
//   tensor({0.5, 1, 2}, DType::F64)      tensor<3xf64>
Tensor tensor(const Numbers& numbers, std::optional<DType> dtype = std::nullopt);

}  // namespace cleave
