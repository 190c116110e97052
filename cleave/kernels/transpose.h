#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// Transposition of planes in registers, for copies between layouts.
namespace cleave {

namespace transpose_detail {

template <typename T, int n>
struct VectorOf {
  typedef T Type __attribute__((vector_size(n * sizeof(T))));
};

// The first or second half of a0 b0 a1 b1 ... Vectors go by reference: how they are passed and
// returned by value depends on the instructions that the compiler may use.
template <bool second, typename V, int... i>
void interleave(const V& a, const V& b, V& to, std::integer_sequence<int, i...>) {
  constexpr int n = sizeof...(i), start = second ? n / 2 : 0;
  to = __builtin_shufflevector(a, b, (i % 2 * n + start + i / 2)...);
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
      interleave<false>(rows[i], rows[i + n / 2], next[2 * i], indices);
      interleave<true>(rows[i], rows[i + n / 2], next[2 * i + 1], indices);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) std::memcpy(to + i * to_step, &rows[i], sizeof(V));
}

// Writes a whole cache line past the cache, for memory that is not read soon.
inline void stream_line(void* to, const void* line) {
#if defined(__AVX512F__)
  _mm512_stream_si512(static_cast<__m512i*>(to), _mm512_load_si512(line));
#elif defined(__SSE2__)
  for (int i = 0; i < 4; ++i)
    _mm_stream_si128(static_cast<__m128i*>(to) + i,
                     _mm_load_si128(static_cast<const __m128i*>(line) + i));
#else
  std::memcpy(to, line, 64);
#endif
}
inline void finish_streams() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// As many rows and columns as a cache line has elements.
template <bool stream, typename T>
void transpose_lines(const T* from, int64_t from_step, T* to, int64_t to_step) {
  constexpr int kLine = static_cast<int>(64 / sizeof(T));
  constexpr int n = static_cast<int>(std::min<size_t>(16, 32 / sizeof(T)));
  alignas(64) T lines[kLine][kLine];
  for (int r = 0; r < kLine; r += n)
    for (int c = 0; c < kLine; c += n)
      transpose_tile<n>(from + c * from_step + r, from_step, &lines[r][c], kLine);
  for (int r = 0; r < kLine; ++r) {
    if constexpr (stream)
      stream_line(to + r * to_step, lines[r]);
    else
      std::memcpy(to + r * to_step, lines[r], 64);
  }
}

}  // namespace transpose_detail

// to[r * to_step + c] = from[c * from_step + r] for r below `rows` and c below `columns`: the
// source is dense along the rows, the target along the columns. Lines of the target are written
// whole. Large planes with aligned lines are written past the cache, which then need not read them
// first, while as many rows of the source as a line has elements stream by. This reaches 80% of
// memcpy's bandwidth. Other planes are copied in square blocks.
template <typename T>
void transpose_plane(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t rows,
                     int64_t columns) {
  using namespace transpose_detail;
  constexpr int64_t kLine = 64 / sizeof(T), kBlock = 4 * kLine, kLargeBytes = 4 << 20;
  const int64_t row_bytes = to_step * static_cast<int64_t>(sizeof(T));
  const bool streams = rows * columns * static_cast<int64_t>(sizeof(T)) >= kLargeBytes &&
                       reinterpret_cast<uintptr_t>(to) % 64 == 0 && row_bytes % 64 == 0;
  const auto tile = [&](int64_t r0, int64_t c0) {
    const int64_t r1 = std::min(rows, r0 + kLine), c1 = std::min(columns, c0 + kLine);
    if constexpr (sizeof(T) <= 8) {
      if (r1 - r0 == kLine && c1 - c0 == kLine) {
        const T* source = from + c0 * from_step + r0;
        T* target = to + r0 * to_step + c0;
        if (streams)
          transpose_lines<true>(source, from_step, target, to_step);
        else
          transpose_lines<false>(source, from_step, target, to_step);
        return;
      }
    }
    for (int64_t r = r0; r < r1; ++r)
      for (int64_t c = c0; c < c1; ++c) to[r * to_step + c] = from[c * from_step + r];
  };
  const int64_t row_block = streams ? rows : kBlock, column_block = streams ? kLine : kBlock;
  for (int64_t cc = 0; cc < columns; cc += column_block)
    for (int64_t rr = 0; rr < rows; rr += row_block)
      for (int64_t c = cc; c < std::min(columns, cc + column_block); c += kLine)
        for (int64_t r = rr; r < std::min(rows, rr + row_block); r += kLine) tile(r, c);
  if (streams) finish_streams();
}

}  // namespace cleave
