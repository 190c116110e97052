#pragma once

#include <span>
#include <utility>
#include <vector>

#include "cleave/tensors.h"

// Functions of the library on small inputs, by family; tensor_ops_test.cc runs them.
namespace cleave {

using Args = std::span<const Tensor>;
using Results = std::vector<Tensor>;

struct Case {
  const char* name;
  std::vector<Type> inputs;
  Results (*run)(Args);
  double units = 1000;
  bool smooth = false;  // gradients and vmap are tested too
  bool traced = true;   // false: sizes depend on values
};

inline Type f32(Shape shape) { return Type::tensor(DType::F32, std::move(shape)); }
inline Type i32(Shape shape) { return Type::tensor(DType::I32, std::move(shape)); }
inline Type b1(Shape shape) { return Type::tensor(DType::Bool, std::move(shape)); }
inline Type f16(Shape shape) { return Type::tensor(DType::F16, std::move(shape)); }
inline Type u8(Shape shape) { return Type::tensor(DType::U8, std::move(shape)); }
inline Type i8(Shape shape) { return Type::tensor(DType::I8, std::move(shape)); }
inline Type f64(Shape shape) { return Type::tensor(DType::F64, std::move(shape)); }

std::vector<Case> layer_cases();
std::vector<Case> index_cases();
std::vector<Case> place_cases();
std::vector<Case> literal_cases();
std::vector<Case> factor_cases();
std::vector<Case> factor_use_cases();
std::vector<Case> matrix_cases();
std::vector<Case> more_cases();
std::vector<Case> arrange_cases();
std::vector<Case> order_cases();
std::vector<Case> norm_cases();

}  // namespace cleave
