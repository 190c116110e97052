#include "cleave/kernels/elementwise.h"

#include <array>

#include "cleave/core/error.h"
#include "cleave/kernels/loop_families.h"
#include "cleave/kernels/loop_templates.h"

namespace cleave {
namespace {

DType complex_of(DType real) { return real == DType::F64 ? DType::C128 : DType::C64; }

Array run(const LoopChoice& choice, std::span<const Array> operands, DType result,
          const Array* reuse = nullptr) {
  const std::array<DType, kMaxLoopOperands> in = {choice.in, choice.in, choice.in};
  return run_loop(choice.loop, operands, std::span(in).first(operands.size()), choice.out, result,
                  reuse);
}

}  // namespace

DType result_dtype(UnaryOp op, DType operand) {
  switch (op) {
    case UnaryOp::IsFinite:
    case UnaryOp::IsInf:
    case UnaryOp::IsPosInf:
    case UnaryOp::IsNegInf:
      return DType::Bool;
    case UnaryOp::Abs:
    case UnaryOp::Real:
    case UnaryOp::Imag:
      return real_part_type(operand);
    default:
      return operand;
  }
}

DType result_dtype(BinaryOp op, DType operand) {
  return op == BinaryOp::Complex ? complex_of(operand) : operand;
}

LoopChoice unary_loop(UnaryOp op, DType dtype) {
  if (!has_kernels(dtype)) return {};
  const DType in = compute_dtype(dtype);
  if (in != dtype)
    if (const Loop half = half_unary_loop(op, dtype)) return {half, dtype, dtype};
  Loop loop = arithmetic_unary_loop(op, in);
  if (!loop) loop = bits_unary_loop(op, in);
  if (!loop) loop = math_unary_loop(op, in);
  if (!loop) loop = complex_unary_loop(op, in);
  return {loop, in, result_dtype(op, in)};
}

LoopChoice binary_loop(BinaryOp op, DType dtype) {
  if (!has_kernels(dtype)) return {};
  if (op == BinaryOp::NextAfter)
    return is_float(dtype) ? LoopChoice{next_after_loop(dtype), dtype, dtype} : LoopChoice{};
  const DType in = compute_dtype(dtype);
  if (in != dtype)
    if (const Loop half = half_binary_loop(op, dtype)) return {half, dtype, dtype};
  Loop loop = arithmetic_binary_loop(op, in);
  if (!loop) loop = bits_binary_loop(op, in);
  if (!loop) loop = math_binary_loop(op, in);
  if (!loop) loop = complex_binary_loop(op, in);
  return {loop, in, result_dtype(op, in)};
}

Array unary(UnaryOp op, const Array& x, const Array* reuse) {
  const LoopChoice choice = unary_loop(op, x.dtype());
  if (!choice.loop) throw_user("elementwise op has no kernel for {}", name(x.dtype()));
  return run(choice, std::span(&x, 1), result_dtype(op, x.dtype()), reuse);
}

Array binary(BinaryOp op, const Array& a, const Array& b, const Array* reuse) {
  const LoopChoice choice = binary_loop(op, a.dtype());
  if (!choice.loop) throw_user("elementwise op has no kernel for {}", name(a.dtype()));
  const std::array operands = {a, b};
  return run(choice, operands, result_dtype(op, a.dtype()), reuse);
}

Array compare(CompareOp op, const Array& a, const Array& b, bool total_order) {
  const LoopChoice choice = compare_loop(op, a.dtype(), total_order);
  if (!choice.loop) throw_user("compare has no kernel for {}", name(a.dtype()));
  const std::array operands = {a, b};
  return run(choice, operands, DType::Bool);
}

Array splat(const Array& scalar, const Shape& shape) {
  return scalar.shape() == shape ? scalar : scalar.broadcast(shape, {});
}

Array clamp(const Array& low, const Array& x, const Array& high) {
  const Array raised = binary(BinaryOp::Maximum, x, splat(low, x.shape()));
  return binary(BinaryOp::Minimum, raised, splat(high, x.shape()));
}

Array convert(const Array& x, DType to) {
  if (x.dtype() == to) return x;
  const std::array in = {x.dtype()};
  return run_loop(convert_loop(x.dtype(), to), std::span(&x, 1), in, to, to);
}

Array bitcast_convert(const Array& x, DType to, const Shape& shape) {
  const Array packed = x.contiguous();
  if (x.dtype() == DType::Bool && to != DType::Bool && bit_width(to) > 1) {
    // Eight bools to a byte, the first one lowest.
    Array result = Array::zeros(to, shape);
    auto* bytes = reinterpret_cast<uint8_t*>(result.raw());
    for (int64_t i = 0; i < packed.num_elements(); ++i)
      bytes[i / 8] |= static_cast<uint8_t>(packed.data<uint8_t>()[i] << (i % 8));
    return result;
  }
  if (to == DType::Bool && x.dtype() != DType::Bool) {
    Array result(to, shape);
    const auto* bytes = packed.data<uint8_t>();
    for (int64_t i = 0; i < result.num_elements(); ++i)
      result.data<uint8_t>()[i] = bytes[i / 8] >> (i % 8) & 1;
    return result;
  }
  return Array::from_bytes(to, shape, packed.raw());
}

}  // namespace cleave
