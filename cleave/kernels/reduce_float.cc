#include "cleave/core/error.h"
#include "cleave/kernels/reduce_loops.h"

namespace cleave::reduce_detail {

void run_float(DType dtype, Reducer reducer, const Plan* plan, const void* in, const void* init,
               void* out) {
  switch (dtype) {
    case DType::BF16:
      return run_any<bfloat16>(reducer, plan, in, init, out);
    case DType::F32:
      return run_any<float>(reducer, plan, in, init, out);
    case DType::F64:
      return run_any<double>(reducer, plan, in, init, out);
    case DType::C64:
      return run_any<std::complex<float>>(reducer, plan, in, init, out);
    case DType::C128:
      return run_any<std::complex<double>>(reducer, plan, in, init, out);
    default:
      throw_internal("no reduction of {}", name(dtype));
  }
}

}  // namespace cleave::reduce_detail
