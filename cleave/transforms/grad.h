#pragma once

#include <functional>
#include <memory>

#include "cleave/transforms/trace.h"

// Derivatives of functions over trees of Tensors. Each traces the function to a graph, transforms
// the graph (cleave/transforms/diff.h) and records the outcome on the caller's tensors, which may
// themselves be arguments of an outer trace: so all of them compose, in any order.
//
//   auto loss = [](const Params& p, const Tensor& x) { return mean(square(model(p, x))); };
//   Params g          = grad(loss)(params, x);               // by the first argument
//   auto [value, g2]  = value_and_grad(loss)(params, x);
//   auto [gp, gx]     = grad<0, 1>(loss)(params, x);         // by both
//
// A function that returns a pair or tuple (value, aux...) is differentiated by its first member,
// and the rest comes along: value_and_grad gives {{value, aux}, g}, grad gives {g, aux...}. Leaves
// of integers and booleans have no derivative: their place holds an empty Tensor.
namespace cleave {

namespace grad_detail {

// Places of leaves among the arguments: [begin, end) of each argument.
struct LeafRanges {
  std::vector<std::pair<size_t, size_t>> args;
};
template <typename... Args>
LeafRanges leaf_ranges(const Args&... args) {
  LeafRanges ranges;
  size_t at = 0;
  auto add = [&](const auto& tree) {
    const size_t count = leaves(tree).size();
    ranges.args.emplace_back(at, at + count);
    at += count;
  };
  (add(args), ...);
  return ranges;
}

// The leaves that have a derivative, of some arguments.
std::vector<size_t> smooth_leaves(std::span<const Tensor> leaves, const LeafRanges& ranges,
                                  std::span<const size_t> args);
// The results of the trace, then the cotangents of `wanted`; others of `args` are empty.
struct ValueAndGrad {
  std::vector<Tensor> values;
  std::vector<Tensor> cotangents;  // one per leaf of the arguments, empty if not asked for
};
ValueAndGrad value_and_grad(Trace trace, std::span<const Tensor> leaves,
                            const std::vector<size_t>& wanted);
struct Jvp {
  std::vector<Tensor> values, tangents;  // one per result leaf; tangents of integers are empty
};
Jvp jvp(Trace trace, std::span<const Tensor> leaves, std::span<const Tensor> tangents);

// The forward part, which is done, and the backward part, which runs for any cotangents.
struct Pullback {
  std::vector<Tensor> values;
  std::shared_ptr<const Graph> graph;  // function "main": residuals, cotangents -> cotangents
  std::vector<Tensor> residuals;
  std::vector<size_t> wanted;
  size_t num_args = 0;
  std::vector<Tensor> operator()(std::span<const Tensor> cotangents) const;
};
Pullback vjp(Trace trace, std::span<const Tensor> leaves, const std::vector<size_t>& wanted);

// The place of argument n, which must be one Tensor.
size_t only_leaf(const char* what, const LeafRanges& ranges, size_t n);
Tensor jacobian(Trace trace, std::span<const Tensor> leaves, size_t arg, bool forward);

inline std::span<const Tensor> part(const std::vector<Tensor>& all,
                                    std::pair<size_t, size_t> range) {
  return std::span(all).subspan(range.first, range.second - range.first);
}

template <size_t... n, typename... Args>
auto gather(const std::vector<Tensor>& cotangents, const LeafRanges& ranges, const Args&... args) {
  const std::tuple<const Args&...> all(args...);
  auto one = [&]<size_t i>(std::integral_constant<size_t, i>) {
    return with_leaves(std::decay_t<decltype(std::get<i>(all))>(std::get<i>(all)),
                       part(cotangents, ranges.args[i]));
  };
  if constexpr (sizeof...(n) == 1)
    return one(std::integral_constant<size_t, n...>());
  else
    return std::make_tuple(one(std::integral_constant<size_t, n>())...);
}

template <typename T>
auto rest_of(const T& tuple) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return std::make_tuple(std::get<i + 1>(tuple)...);
  }
  (std::make_index_sequence<std::tuple_size_v<T> - 1>());
}

}  // namespace grad_detail

template <size_t... n, typename F>
auto value_and_grad(F f) {
  return [f = std::move(f)](const auto&... args) {
    using namespace grad_detail;
    if constexpr (sizeof...(n) == 0) {
      return cleave::value_and_grad<0>(f)(args...);
    } else {
      static_assert(((n < sizeof...(args)) && ...), "grad<n>: there is no argument n");
      const std::vector<Tensor> leaves = trace_detail::flatten(args...);
      const LeafRanges ranges = leaf_ranges(args...);
      constexpr std::array<size_t, sizeof...(n)> argnums{n...};
      const std::vector<size_t> wanted = smooth_leaves(leaves, ranges, argnums);
      auto call = trace_detail::trace_call(f, args...);
      const ValueAndGrad made = grad_detail::value_and_grad(std::move(call.trace), leaves, wanted);
      return std::make_pair(with_leaves(std::move(call.result), made.values),
                            gather<n...>(made.cotangents, ranges, args...));
    }
  };
}

template <size_t... n, typename F>
auto grad(F f) {
  return [f = std::move(f)](const auto&... args) {
    auto [value, gradient] = cleave::value_and_grad<n...>(f)(args...);
    if constexpr (tree_detail::IsTuple<std::decay_t<decltype(value)>>::value)
      return std::tuple_cat(std::make_tuple(std::move(gradient)), grad_detail::rest_of(value));
    else
      return gradient;
  };
}

// vjp(f)(args...) -> {f(args...), pull}; pull(cotangents of the result) gives a tuple of the
// cotangents of all arguments. The forward part is done once.
template <typename F>
auto vjp(F f) {
  return [f = std::move(f)](const auto&... args) {
    using namespace grad_detail;
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    const LeafRanges ranges = leaf_ranges(args...);
    std::vector<size_t> all;
    for (size_t i = 0; i < sizeof...(args); ++i) all.push_back(i);
    auto call = trace_detail::trace_call(f, args...);
    const Pullback made =
        grad_detail::vjp(std::move(call.trace), leaves, smooth_leaves(leaves, ranges, all));
    auto value = with_leaves(std::move(call.result), made.values);
    auto pull = [made, ranges, args...](const decltype(value)& cotangents) {
      const std::vector<Tensor> result = made(cleave::leaves(cotangents));
      return [&]<size_t... i>(std::index_sequence<i...>) {
        const auto gathered = gather<i...>(result, ranges, args...);
        if constexpr (sizeof...(i) == 1)
          return std::make_tuple(gathered);
        else
          return gathered;
      }
      (std::make_index_sequence<sizeof...(args)>());
    };
    return std::make_pair(std::move(value), std::move(pull));
  };
}

// jvp(f, {args...}, {tangents...}) -> {f(args...), its tangent}
template <typename F, typename... Args>
auto jvp(const F& f, const std::tuple<Args...>& args, const std::tuple<Args...>& tangents) {
  const std::vector<Tensor> leaves = std::apply(trace_detail::flatten<Args...>, args);
  auto call = std::apply([&](const Args&... a) { return trace_detail::trace_call(f, a...); }, args);
  const grad_detail::Jvp made = grad_detail::jvp(
      std::move(call.trace), leaves, std::apply(trace_detail::flatten<Args...>, tangents));
  return std::make_pair(with_leaves(call.result, made.values),
                        with_leaves(call.result, made.tangents));
}

// The matrix of derivatives of a Tensor by the Tensor argument n, of shape (result, argument):
// column by column in forward mode, row by row in reverse mode; one batched run either way.
template <size_t n = 0, typename F>
auto jacfwd(F f) {
  return [f = std::move(f)](const auto&... args) {
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    const size_t leaf = grad_detail::only_leaf("jacfwd", grad_detail::leaf_ranges(args...), n);
    return grad_detail::jacobian(trace_detail::trace_call(f, args...).trace, leaves, leaf, true);
  };
}
template <size_t n = 0, typename F>
auto jacrev(F f) {
  return [f = std::move(f)](const auto&... args) {
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    const size_t leaf = grad_detail::only_leaf("jacrev", grad_detail::leaf_ranges(args...), n);
    return grad_detail::jacobian(trace_detail::trace_call(f, args...).trace, leaves, leaf, false);
  };
}
// The second derivatives of a function with one number as its result, by the Tensor argument n.
template <size_t n = 0, typename F>
auto hessian(F f) {
  return jacfwd<n>(grad<n>(std::move(f)));
}

}  // namespace cleave
