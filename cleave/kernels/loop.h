#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cleave/kernels/array.h"

namespace cleave {

// One elementwise op on n contiguous elements: out[i] = f(in[0][i], in[1][i], ...). `out` may be
// one of the inputs if the element sizes agree.
using Loop = void (*)(const std::byte* const* in, std::byte* out, int64_t n);

// A loop and the dtypes of its operands and result. Functions of float16 and bfloat16 have loops in
// float32: their arrays are widened and rounded chunk by chunk around the loop, so that few loops
// exist per op. Arithmetic has loops of its own, which widen in registers.
struct LoopChoice {
  Loop loop = nullptr;  // null: the op is not defined on the dtype
  DType in = DType::F32;
  DType out = DType::F32;
};

inline constexpr size_t kMaxLoopOperands = 3;

// A loop with the dtype of each operand: operand i is converted to `in[i]` before it, and what it
// computes, of dtype `out`, to the dtype of the result after it.
struct ElementLoop {
  Loop loop = nullptr;
  std::array<DType, kMaxLoopOperands> in{};
  DType out = DType::F32;
};
inline ElementLoop element_loop(const LoopChoice& choice) {
  return {choice.loop, {choice.in, choice.in, choice.in}, choice.out};
}

// Runs a loop over strided views of one shape. Operand i is read as dtype `in[i]` and the loop's
// output, of dtype `out`, is stored as `result`. Views that are not contiguous, and those whose
// dtype differs, go through chunks that stay in the first-level cache; the others are read in
// place. The result takes the memory of `reuse`, one of the operands, if that is given, contiguous
// and of the same size.
Array run_loop(Loop loop, std::span<const Array> operands, std::span<const DType> in, DType out,
               DType result, const Array* reuse = nullptr);

// Converts n contiguous elements as StableHLO's convert does; null if from equals to.
Loop convert_loop(DType from, DType to);

}  // namespace cleave
