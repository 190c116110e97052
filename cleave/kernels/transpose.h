#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

// Transposition of planes in registers, for copies between layouts.
namespace cleave {

namespace transpose_detail {

template <typename T, int n>
struct VectorOf {
  typedef T Type __attribute__((vector_size(n * sizeof(T))));
};

// a0 b0 a1 b1 ..., the first or second half of it.
template <bool second, typename V, int... i>
V interleave(V a, V b, std::integer_sequence<int, i...>) {
  constexpr int n = sizeof...(i), start = second ? n / 2 : 0;
  return __builtin_shufflevector(a, b, (i % 2 * n + start + i / 2)...);
}

// An n x n tile. Each round takes the top bit of the row's number and of the column's, and puts it
// below the other's; after log2 n rounds they have changed places.
template <int n, typename T>
void transpose_tile(const T* from, int64_t from_step, T* to, int64_t to_step) {
  using V = typename VectorOf<T, n>::Type;
  constexpr std::make_integer_sequence<int, n> indices;
  V rows[n], next[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) std::memcpy(&rows[i], from + i * from_step, sizeof(V));
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = interleave<false>(rows[i], rows[i + n / 2], indices);
      next[2 * i + 1] = interleave<true>(rows[i], rows[i + n / 2], indices);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) std::memcpy(to + i * to_step, &rows[i], sizeof(V));
}

}  // namespace transpose_detail

// to[r * to_step + c] = from[c * from_step + r] for r below `rows` and c below `columns`: the
// source is dense along the rows, the target along the columns. A cache line's worth of columns at
// a time, so that lines of the target are written whole while as many rows of the source stream by.
template <typename T>
void transpose_plane(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t rows,
                     int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const auto by_element = [&](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    for (int64_t r = r0; r < r1; ++r)
      for (int64_t c = c0; c < c1; ++c) to[r * to_step + c] = from[c * from_step + r];
  };
  for (int64_t c0 = 0; c0 < columns; c0 += kLine) {
    const int64_t c1 = std::min(columns, c0 + kLine);
    int64_t r0 = 0;
    if constexpr (sizeof(T) <= 8) {
      constexpr int n = static_cast<int>(std::min<size_t>(16, 32 / sizeof(T)));
      if (c1 - c0 == kLine)
        for (; r0 + n <= rows; r0 += n)
          for (int64_t c = c0; c < c1; c += n)
            transpose_detail::transpose_tile<n>(from + c * from_step + r0, from_step,
                                                to + r0 * to_step + c, to_step);
    }
    for (; r0 < rows; r0 += kLine) by_element(r0, std::min(rows, r0 + kLine), c0, c1);
  }
}

}  // namespace cleave
