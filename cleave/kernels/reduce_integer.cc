#include "cleave/core/error.h"
#include "cleave/kernels/reduce_loops.h"

namespace cleave::reduce_detail {

void run_integer(DType dtype, Reducer reducer, const Plan* plan, const void* in, const void* init,
                 void* out) {
  // Overflow wraps: sums and products of signed numbers are those of unsigned ones.
  const bool ordered = reducer == Reducer::Max || reducer == Reducer::Min;
  switch (byte_size(dtype)) {
    case 1:
      if (ordered && dtype == DType::I8) return run_any<int8_t>(reducer, plan, in, init, out);
      return run_any<uint8_t>(reducer, plan, in, init, out);
    case 2:
      if (ordered && dtype == DType::I16) return run_any<int16_t>(reducer, plan, in, init, out);
      return run_any<uint16_t>(reducer, plan, in, init, out);
    case 4:
      if (ordered && dtype == DType::I32) return run_any<int32_t>(reducer, plan, in, init, out);
      return run_any<uint32_t>(reducer, plan, in, init, out);
    default:
      if (ordered && dtype == DType::I64) return run_any<int64_t>(reducer, plan, in, init, out);
      return run_any<uint64_t>(reducer, plan, in, init, out);
  }
}

}  // namespace cleave::reduce_detail
