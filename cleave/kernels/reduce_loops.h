#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "cleave/kernels/blocked_sum.h"
#include "cleave/kernels/float16.h"
#include "cleave/kernels/reduce_plan.h"

// The loops of reduce(), instantiated by element type in reduce_integer.cc and reduce_float.cc.
namespace cleave::reduce_detail {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

template <typename W>
struct SumOp {
  static W identity() { return W{}; }
  static W apply(W a, W b) { return static_cast<W>(a + b); }
};
template <typename W>
struct ProdOp {
  static W identity() { return W{1}; }
  static W apply(W a, W b) {
    // Narrow unsigned types would multiply as int, which may overflow.
    if constexpr (std::is_integral_v<W> && sizeof(W) < 4)
      return static_cast<W>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
    else
      return static_cast<W>(a * b);
  }
};
template <typename W>
struct MaxOp {
  static W identity() {
    if constexpr (std::is_floating_point_v<W>)
      return -std::numeric_limits<W>::infinity();
    else
      return std::numeric_limits<W>::lowest();
  }
  static W apply(W a, W b) { return a < b || b != b ? b : a; }
};
template <typename W>
struct MinOp {
  static W identity() {
    if constexpr (std::is_floating_point_v<W>)
      return std::numeric_limits<W>::infinity();
    else
      return std::numeric_limits<W>::max();
  }
  static W apply(W a, W b) { return b < a || b != b ? b : a; }
};
template <typename W>
struct AndOp {
  static W identity() { return static_cast<W>(~W{}); }
  static W apply(W a, W b) { return static_cast<W>(a & b); }
};
template <typename W>
struct OrOp {
  static W identity() { return W{}; }
  static W apply(W a, W b) { return static_cast<W>(a | b); }
};
template <typename W>
struct XorOp {
  static W identity() { return W{}; }
  static W apply(W a, W b) { return static_cast<W>(a ^ b); }
};

// Calls visit(offset) for every index of `dims`.
template <typename Visit>
void for_each_offset(const std::vector<FoldedDim>& dims, Visit visit) {
  std::array<int64_t, kMostDims> index{};
  int64_t offset = 0;
  while (true) {
    visit(offset);
    size_t d = dims.size();
    while (d-- > 0) {
      offset += dims[d].stride;
      if (++index[d] < dims[d].size) break;
      offset -= dims[d].stride * dims[d].size;
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

template <typename Op, typename W, typename T>
W fold_row(const T* row, int64_t n, int64_t stride, W start) {
  constexpr int64_t kLanes = 32;
  if (stride != 1 || n < 2 * kLanes) {
    for (int64_t i = 0; i < n; ++i) start = Op::apply(start, static_cast<W>(row[i * stride]));
    return start;
  }
  W lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = static_cast<W>(row[l]);
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = Op::apply(lanes[l], static_cast<W>(row[i + l]));
  for (int64_t l = 0; i + l < n; ++l) lanes[l] = Op::apply(lanes[l], static_cast<W>(row[i + l]));
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t l = 0; l < width; ++l) lanes[l] = Op::apply(lanes[l], lanes[l + width]);
  return Op::apply(start, lanes[0]);
}

// Whether the order of an operator's terms decides how much their rounding adds up to.
template <typename Op, typename W>
inline constexpr bool kIsBlocked = std::is_same_v<Op, SumOp<W>> && !std::is_integral_v<W>;

// Folds rows of n elements into block[0 .. n), beginning with init.
template <typename Op, typename W, typename T>
void fold_columns(const std::vector<FoldedDim>& folded, int64_t rows, const T* base, int64_t n,
                  int64_t step, W init, W* block) {
  if constexpr (kIsBlocked<Op, W>) {
    if (rows >= ColumnSums<W, T>::kTree) {
      ColumnSums<W, T> sums(n, step, block);
      for_each_offset(folded, [&](int64_t offset) { sums.add(base + offset); });
      return sums.finish(init);
    }
  }
  std::fill_n(block, n, init);
  for_each_offset(folded, [&](int64_t offset) {
    const T* row = base + offset;
    if (step == 1)
      for (int64_t j = 0; j < n; ++j) block[j] = Op::apply(block[j], static_cast<W>(row[j]));
    else
      for (int64_t j = 0; j < n; ++j) block[j] = Op::apply(block[j], static_cast<W>(row[j * step]));
  });
}

template <typename T, typename Op>
void run(const Plan& plan, const T* in, T init_value, T* out) {
  using W = Wide<T>;
  const W init = static_cast<W>(init_value);
  W block[kColumns];
  int64_t rows = 1;
  for (const FoldedDim& dim : plan.folded) rows *= dim.size;
  std::array<int64_t, kMostDims> index{};
  int64_t in_offset = 0, out_offset = 0;
  while (true) {
    if (plan.inner_kept) {
      for (int64_t start = 0; start < plan.inner.size; start += kColumns) {
        const int64_t n = std::min(kColumns, plan.inner.size - start);
        const int64_t step = plan.inner.in_stride;
        fold_columns<Op>(plan.folded, rows, in + in_offset + start * step, n, step, init, block);
        T* target = out + out_offset + start * plan.inner.out_stride;
        for (int64_t j = 0; j < n; ++j)
          target[j * plan.inner.out_stride] = static_cast<T>(block[j]);
      }
    } else if constexpr (kIsBlocked<Op, W>) {
      const int64_t n = plan.inner.size, stride = plan.inner.in_stride;
      if (plan.folded.empty() && n <= short_sum(stride)) {
        out[out_offset] = static_cast<T>(init + sum_short_row<W>(in + in_offset, n, stride));
      } else {
        auto total = Total<W>::of(init);
        for_each_offset(plan.folded, [&](int64_t offset) {
          add_row(in + in_offset + offset, n, stride, total);
        });
        out[out_offset] = static_cast<T>(total.value());
      }
    } else {
      W value = init;
      for_each_offset(plan.folded, [&](int64_t offset) {
        value =
            fold_row<Op, W>(in + in_offset + offset, plan.inner.size, plan.inner.in_stride, value);
      });
      out[out_offset] = static_cast<T>(value);
    }
    size_t d = plan.kept.size();
    while (d-- > 0) {
      const KeptDim& dim = plan.kept[d];
      in_offset += dim.in_stride;
      out_offset += dim.out_stride;
      if (++index[d] < dim.size) break;
      in_offset -= dim.in_stride * dim.size;
      out_offset -= dim.out_stride * dim.size;
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

// One reducer for one element type: folds, or (plan null) writes the identity to `out`.
template <typename T>
void run_any(Reducer reducer, const Plan* plan, const void* in, const void* init, void* out) {
  using W = Wide<T>;
  auto go = [&]<template <typename> class Op>() {
    if (!plan)
      *static_cast<T*>(out) = static_cast<T>(Op<W>::identity());
    else
      run<T, Op<W>>(*plan, static_cast<const T*>(in), *static_cast<const T*>(init),
                    static_cast<T*>(out));
  };
  switch (reducer) {
    case Reducer::Sum:
      return go.template operator()<SumOp>();
    case Reducer::Prod:
      return go.template operator()<ProdOp>();
    case Reducer::Max:
      if constexpr (!kIsComplex<T>) return go.template operator()<MaxOp>();
      return;
    case Reducer::Min:
      if constexpr (!kIsComplex<T>) return go.template operator()<MinOp>();
      return;
    case Reducer::And:
      if constexpr (std::is_integral_v<T>) return go.template operator()<AndOp>();
      return;
    case Reducer::Or:
      if constexpr (std::is_integral_v<T>) return go.template operator()<OrOp>();
      return;
    case Reducer::Xor:
      if constexpr (std::is_integral_v<T>) return go.template operator()<XorOp>();
      return;
  }
}

void run_integer(DType dtype, Reducer reducer, const Plan* plan, const void* in, const void* init,
                 void* out);
void run_float(DType dtype, Reducer reducer, const Plan* plan, const void* in, const void* init,
               void* out);

}  // namespace cleave::reduce_detail
