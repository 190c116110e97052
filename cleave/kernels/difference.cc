#include "cleave/kernels/difference.h"

#include <cmath>
#include <cstring>

#include "cleave/core/error.h"
#include "cleave/kernels/array_text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/float16.h"
#include "cleave/kernels/narrow.h"

namespace cleave {
namespace {

Shape unravel(int64_t linear, const Shape& shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = linear % shape[d];
    linear /= shape[d];
  }
  return index;
}

void check_types(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape())
    throw_user("tensor<{}{}{}> is compared with tensor<{}{}{}>", to_string(a.shape()),
               a.rank() ? "x" : "", name(a.dtype()), to_string(b.shape()), b.rank() ? "x" : "",
               name(b.dtype()));
}

// The first element for which `differs(part a, part b)` holds in one of its parts; a complex number
// has two.
template <typename T, typename Differs>
std::optional<int64_t> find(const Array& a, const Array& b, int64_t parts, Differs differs) {
  const T* x = a.data<T>();
  const T* y = b.data<T>();
  for (int64_t i = 0; i < a.num_elements() * parts; ++i)
    if (differs(x[i], y[i])) return i / parts;
  return std::nullopt;
}

std::optional<Difference> report(const Array& a, const Array& b, std::optional<int64_t> at) {
  if (!at) return std::nullopt;
  const int64_t offset = *at * byte_size(a.dtype());
  return Difference{unravel(*at, a.shape()), element_text(a.dtype(), a.raw() + offset),
                    element_text(b.dtype(), b.raw() + offset)};
}

// Calls find with the float type of the elements.
template <typename Differs>
std::optional<int64_t> find_float(const Array& a, const Array& b, Differs differs) {
  switch (a.dtype()) {
    case DType::F16:
      return find<float16>(a, b, 1, differs);
    case DType::BF16:
      return find<bfloat16>(a, b, 1, differs);
    case DType::F32:
      return find<float>(a, b, 1, differs);
    case DType::F64:
      return find<double>(a, b, 1, differs);
    case DType::C64:
      return find<float>(a, b, 2, differs);
    case DType::C128:
      return find<double>(a, b, 2, differs);
    default:
      if (is_narrow(a.dtype()) && is_float(a.dtype()))
        return find<float>(convert(a, DType::F32), convert(b, DType::F32), 1, differs);
      throw_user("arrays of {} cannot be compared with a tolerance", name(a.dtype()));
  }
}

template <size_t kBytes>
using UintOf =
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>;

template <typename T>
double widen(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<float>(x);
}

template <typename T>
uint64_t ulps_between(T a, T b) {
  using Bits = UintOf<sizeof(T)>;
  Bits x, y;
  std::memcpy(&x, &a, sizeof(T));
  std::memcpy(&y, &b, sizeof(T));
  if (x == y) return 0;
  const double p = widen(a), q = widen(b);
  if (std::isnan(p) && std::isnan(q)) return 0;
  if (!std::isfinite(p) || !std::isfinite(q)) return UINT64_MAX;
  constexpr Bits kSign = Bits{1} << (sizeof(T) * 8 - 1);
  const uint64_t m = x & static_cast<Bits>(~kSign), n = y & static_cast<Bits>(~kSign);
  if ((x & kSign) != (y & kSign)) return m + n;
  return m > n ? m - n : n - m;
}

}  // namespace

std::optional<Difference> first_unequal(const Array& actual, const Array& expected) {
  check_types(actual, expected);
  const Array a = actual.contiguous(), b = expected.contiguous();
  if (std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0) return std::nullopt;
  if (has_kernels(a.dtype()) && (is_float(a.dtype()) || is_complex(a.dtype())))
    return report(a, b, find_float(a, b, [](auto x, auto y) {
                    const double p = widen(x), q = widen(y);
                    return !(p == q || (std::isnan(p) && std::isnan(q)));
                  }));
  const int size = byte_size(a.dtype());
  for (int64_t i = 0; i < a.num_elements(); ++i)
    if (std::memcmp(a.raw() + i * size, b.raw() + i * size, static_cast<size_t>(size)) != 0)
      return report(a, b, i);
  return std::nullopt;
}

std::optional<Difference> first_not_near(const Array& actual, const Array& expected,
                                         double tolerance, double relative) {
  check_types(actual, expected);
  const Array a = actual.contiguous(), b = expected.contiguous();
  return report(a, b, find_float(a, b, [=](auto x, auto y) {
                  const double p = widen(x), q = widen(y);
                  if (p == q || (std::isnan(p) && std::isnan(q))) return false;
                  if (!std::isfinite(p) || !std::isfinite(q)) return true;
                  return !(std::fabs(p - q) <= tolerance + relative * std::fabs(q));
                }));
}

std::optional<Difference> first_not_close(const Array& actual, const Array& expected,
                                          uint64_t min_ulps, uint64_t max_ulps) {
  check_types(actual, expected);
  const Array a = actual.contiguous(), b = expected.contiguous();
  uint64_t found = 0;
  std::optional<Difference> difference = report(a, b, find_float(a, b, [&](auto x, auto y) {
                                                  found = ulps_between(x, y);
                                                  return found < min_ulps || found > max_ulps;
                                                }));
  if (difference) difference->ulps = found;
  return difference;
}

}  // namespace cleave
