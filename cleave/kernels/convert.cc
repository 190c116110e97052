#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "cleave/kernels/convert_element.h"
#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/loop_families.h"
#include "cleave/kernels/narrow.h"

namespace cleave {
namespace {

template <typename From, typename To>
void convert(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const From*>(in[0]);
  auto* target = reinterpret_cast<To*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) target[i] = convert_element<To>(source[i]);
}

#if defined(__F16C__) && defined(__AVX__)
template <>
void convert<float16, float>(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const float16*>(in[0]);
  auto* target = reinterpret_cast<float*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(
        target + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i))));
  for (; i < n; ++i) target[i] = source[i];
}

template <>
void convert<float, float16>(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const float*>(in[0]);
  auto* target = reinterpret_cast<float16*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) target[i] = static_cast<float16>(source[i]);
}
#endif

template <typename From>
Loop convert_from(DType to) {
  return visit_dtype(to,
                     [](auto tag) -> Loop { return &convert<From, typename decltype(tag)::type>; });
}

}  // namespace

void widen_float16(const std::byte* const* in, std::byte* out, int64_t n) {
  convert<float16, float>(in, out, n);
}
void narrow_float16(const std::byte* const* in, std::byte* out, int64_t n) {
  convert<float, float16>(in, out, n);
}

Loop convert_loop(DType from, DType to) {
  if (from == to) return nullptr;
  if (is_narrow(from) || is_narrow(to)) {
    if (Loop loop = narrow_convert_loop(from, to)) return loop;
  }
  if (!has_kernels(from) || !has_kernels(to))
    throw_user("convert: no kernel from {} to {}", name(from), name(to));
  return visit_dtype(from,
                     [&](auto tag) { return convert_from<typename decltype(tag)::type>(to); });
}

}  // namespace cleave
