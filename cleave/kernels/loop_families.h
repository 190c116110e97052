#pragma once

#include "cleave/kernels/elementwise.h"

// The source files that hold the loops, by the kind of op; unary_loop and binary_loop ask them in
// turn. Each gives null for what it does not have. `dtype` is one that loops compute in: never f16
// or bf16, except for the last few functions.
namespace cleave {

Loop arithmetic_unary_loop(UnaryOp op, DType dtype);    // elementwise_arithmetic.cc
Loop arithmetic_binary_loop(BinaryOp op, DType dtype);  // elementwise_arithmetic.cc
Loop bits_unary_loop(UnaryOp op, DType dtype);          // elementwise_bits.cc
Loop bits_binary_loop(BinaryOp op, DType dtype);        // elementwise_bits.cc
Loop math_unary_loop(UnaryOp op, DType dtype);          // elementwise_math.cc
Loop math_binary_loop(BinaryOp op, DType dtype);        // elementwise_math.cc
Loop complex_unary_loop(UnaryOp op, DType dtype);       // elementwise_complex.cc
Loop complex_binary_loop(BinaryOp op, DType dtype);     // elementwise_complex.cc
Loop next_after_loop(DType dtype);                      // elementwise_bits.cc; f16 and bf16 too

// Arithmetic on f16 and bf16 without arrays of wide elements; elementwise_arithmetic.cc.
Loop half_unary_loop(UnaryOp op, DType dtype);
Loop half_binary_loop(BinaryOp op, DType dtype);
// The conversions between f16 and f32; convert.cc.
void widen_float16(const std::byte* const* in, std::byte* out, int64_t n);
void narrow_float16(const std::byte* const* in, std::byte* out, int64_t n);

}  // namespace cleave
