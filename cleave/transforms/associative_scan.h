#pragma once

#include "cleave/runtime/ops_shape.h"
#include "cleave/transforms/tree.h"

namespace cleave {

namespace associative_scan_detail {

// How many elements the leaves have along a dimension. Throws UserError if they differ.
int64_t common_size(std::span<const Tensor> leaves, int64_t dim);
// Elements of both in turn; `even` has as many as `odd`, or one more.
Tensor interleave(const Tensor& even, const Tensor& odd, int64_t dim);

template <typename T>
T sliced(const T& tree, int64_t dim, int64_t start, std::optional<int64_t> limit, int64_t stride) {
  return map_leaves([&](const Tensor& x) { return slice_dim(x, dim, start, limit, stride); }, tree);
}

template <typename F, typename T>
T join(const F& f, const T& first, const T& second, int64_t dim) {
  const std::vector<Tensor> a = leaves(first), b = leaves(second);
  std::vector<Tensor> all;
  for (size_t i = 0; i < a.size(); ++i) all.push_back(f(a[i], b[i], dim));
  return with_leaves(first, all);
}

// Pairs are combined, the half as long result is scanned, and what lies between is filled in.
template <typename F, typename T>
T run(const F& f, const T& xs, int64_t dim, int64_t size) {
  if (size < 2) return xs;
  const T pairs = f(sliced(xs, dim, 0, size - 1, 2), sliced(xs, dim, 1, std::nullopt, 2));
  const T odd = run(f, pairs, dim, size / 2);
  const T first = sliced(xs, dim, 0, 1, 1);
  if (size == 2) return join([](auto&... x) { return interleave(x...); }, first, odd, dim);
  const T later = sliced(xs, dim, 2, std::nullopt, 2);
  const T between = f(size % 2 == 0 ? sliced(odd, dim, 0, size / 2 - 1, 1) : odd, later);
  const T even = join(
      [](const Tensor& a, const Tensor& b, int64_t d) {
        return concat({a, b}, d);
      },
      first, between, dim);
  return join([](auto&... x) { return interleave(x...); }, even, odd, dim);
}

}  // namespace associative_scan_detail

// Running combinations x0, f(x0, x1), f(f(x0, x1), x2), ... along a dimension of all leaves, for an
// associative f of two trees of slices, which combines each place by itself. It takes about
// 2 log2(n) calls of f on whole slices, and 2 n combinations.
//
//   associative_scan([](const Tensor& a, const Tensor& b) { return a * b; }, x)      // cumprod
//   associative_scan(combine, std::pair{decay, input})       // y[i] = decay[i] y[i - 1] + input[i]
template <typename F, typename T>
T associative_scan(const F& f, const T& xs, int64_t dim = 0, bool reverse = false) {
  using namespace associative_scan_detail;
  const int64_t size = common_size(leaves(xs), dim);
  const auto turned = [&](const T& tree) {
    return map_leaves([&](const Tensor& x) { return flip(x, {dim}); }, tree);
  };
  return reverse ? turned(run(f, turned(xs), dim, size)) : run(f, xs, dim, size);
}

}  // namespace cleave
