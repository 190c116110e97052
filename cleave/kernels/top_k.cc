#include "cleave/kernels/top_k.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/elementwise.h"

namespace cleave {
namespace {

// Integers that order as the elements do.
Array order_keys(const Array& x) {
  if (!is_float(x.dtype())) return x.contiguous();
  const bool wide = x.dtype() == DType::F64;
  Array keys =
      bitcast_convert(wide ? x : convert(x, DType::F32), wide ? DType::I64 : DType::I32, x.shape());
  auto flip = [&](auto* bits) {
    using Bits = std::remove_pointer_t<decltype(bits)>;
    for (int64_t i = 0, n = keys.num_elements(); i < n; ++i)
      if (bits[i] < 0) bits[i] ^= std::numeric_limits<Bits>::max();
  };
  if (wide)
    flip(keys.data<int64_t>());
  else
    flip(keys.data<int32_t>());
  return keys;
}

template <typename Key>
void top_indices(const Array& keys, int64_t k, int32_t* out) {
  const int64_t width = keys.shape().back();
  const int64_t rows = width == 0 ? 0 : keys.num_elements() / width;
  std::vector<int32_t> order(static_cast<size_t>(width));
  for (int64_t row = 0; row < rows; ++row) {
    const Key* key = keys.data<Key>() + row * width;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) {
      return key[a] != key[b] ? key[a] > key[b] : a < b;
    });
    std::copy_n(order.begin(), k, out + row * k);
  }
}

}  // namespace

TopK top_k(const Array& x, int64_t k) {
  if (is_complex(x.dtype())) throw_user("top_k has no kernel for {}", name(x.dtype()));
  const Array keys = order_keys(x);
  Shape shape = x.shape();
  shape.back() = k;
  TopK result{Array(x.dtype(), shape), Array(DType::I32, shape)};
  auto* indices = result.indices.data<int32_t>();
  if (keys.dtype() == DType::Bool)
    top_indices<uint8_t>(keys, k, indices);
  else
    visit_integer(keys.dtype(),
                  [&](auto tag) { top_indices<typename decltype(tag)::type>(keys, k, indices); });
  const Array packed = x.contiguous();
  const int64_t width = x.shape().back();
  visit_size(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = reinterpret_cast<const T*>(packed.raw());
    T* out = reinterpret_cast<T*>(result.values.raw());
    for (int64_t i = 0, n = result.values.num_elements(); i < n; ++i)
      out[i] = in[i / k * width + indices[i]];
  });
  return result;
}

}  // namespace cleave
