#include <complex>
#include "cleave/core/error.h"
#include "cleave/kernels/convert.h"
#include "cleave/kernels/float16.h"
namespace cleave {
template <typename F>
static void visit(DType d, F f) {
  switch (d) {
    case DType::Bool: return f(bool{});
    case DType::I8: return f(int8_t{});
    case DType::I32: return f(int32_t{});
    case DType::I64: return f(int64_t{});
    case DType::F16: return f(float16{});
    case DType::BF16: return f(bfloat16{});
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    default: throw_internal("temp");
  }
}
Array convert(const Array& array, DType dtype) {
  if (array.dtype() == dtype) return array;
  Array in = array.contiguous();
  Array out(dtype, in.shape());
  visit(in.dtype(), [&]<typename A>(A) {
    visit(dtype, [&]<typename B>(B) {
      for (int64_t i = 0; i < in.num_elements(); ++i) {
        if constexpr (std::is_same_v<A, float16> || std::is_same_v<A, bfloat16> || std::is_same_v<B, float16> || std::is_same_v<B, bfloat16>)
          out.data<B>()[i] = static_cast<B>(static_cast<float>(in.data<A>()[i]));
        else
          out.data<B>()[i] = static_cast<B>(in.data<A>()[i]);
      }
    });
  });
  return out;
}
}
