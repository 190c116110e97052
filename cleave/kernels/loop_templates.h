#pragma once

#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/loop.h"

// Makes loops of functors. `F::apply` is a template over the element type; it is only compiled for
// the types that a family asks for.
namespace cleave {

template <typename F, typename T>
void unary_loop_of(const std::byte* const* in, std::byte* out, int64_t n) {
  using R = decltype(F::apply(T{}));
  const auto* a = reinterpret_cast<const T*>(in[0]);
  auto* r = reinterpret_cast<R*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = F::apply(a[i]);
}

template <typename F, typename T>
void binary_loop_of(const std::byte* const* in, std::byte* out, int64_t n) {
  using R = decltype(F::apply(T{}, T{}));
  const auto* a = reinterpret_cast<const T*>(in[0]);
  const auto* b = reinterpret_cast<const T*>(in[1]);
  auto* r = reinterpret_cast<R*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = F::apply(a[i], b[i]);
}

// The dtype that a loop computes in: 16-bit floats widen.
inline DType compute_dtype(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype;
}

template <typename F>
Loop unary_integer_loop(DType dtype) {
  return visit_integer(
      dtype, [](auto tag) -> Loop { return &unary_loop_of<F, typename decltype(tag)::type>; });
}
template <typename F>
Loop binary_integer_loop(DType dtype) {
  return visit_integer(
      dtype, [](auto tag) -> Loop { return &binary_loop_of<F, typename decltype(tag)::type>; });
}

// For f32 and f64, after compute_dtype.
template <typename F>
Loop unary_float_loop(DType dtype) {
  return dtype == DType::F64 ? &unary_loop_of<F, double> : &unary_loop_of<F, float>;
}
template <typename F>
Loop binary_float_loop(DType dtype) {
  return dtype == DType::F64 ? &binary_loop_of<F, double> : &binary_loop_of<F, float>;
}
template <typename F>
Loop unary_complex_loop(DType dtype) {
  return dtype == DType::C128 ? &unary_loop_of<F, std::complex<double>>
                              : &unary_loop_of<F, std::complex<float>>;
}
template <typename F>
Loop binary_complex_loop(DType dtype) {
  return dtype == DType::C128 ? &binary_loop_of<F, std::complex<double>>
                              : &binary_loop_of<F, std::complex<float>>;
}

}  // namespace cleave
