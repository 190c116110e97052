#pragma once

#include <concepts>

#include "cleave/runtime/ops_creation.h"
#include "cleave/transforms/trace.h"

// Control flow and marks as functions over functions. Each traces what it is given and records one
// op: in a trace it stays a loop or a branch, and derivatives go through it.
namespace cleave {

namespace flow_detail {

std::vector<Tensor> record_stop(std::span<const Tensor> leaves);
// The trace as an sdy.named_computation; `rules` is the text of custom derivatives, or empty.
std::vector<Tensor> record_named(std::string_view name, const Trace& trace,
                                 std::span<const Tensor> leaves, std::string rules);
std::vector<Tensor> record_cond(const Tensor& condition, const Trace& yes, const Trace& no,
                                std::span<const Tensor> leaves);
std::vector<Tensor> record_while(const Trace& condition, const Trace& body,
                                 std::span<const Tensor> carry);
// The body takes a carry and a slice, and gives a carry and a slice.
std::vector<Tensor> record_scan(const Trace& body, std::span<const Tensor> carry,
                                std::span<const Tensor> inputs, bool reverse);
// The text of a module with the functions @fwd and @bwd; both must be closed.
std::string rules_text(const Trace& fwd, const Trace& bwd);
// Throws UserError if the forward function does not begin with what f gives, or the backward
// one does not give a cotangent for each argument of floats.
void check_rules(const Trace& f, const Trace& fwd, const Trace& bwd);
void check_trips(int64_t begin, int64_t end);
Tensor slice_like(const Tensor& x);  // of the type of x[0]; its value does not matter

template <typename T>
T map_all(const T& tree, std::vector<Tensor> (*f)(std::span<const Tensor>)) {
  return with_leaves(tree, f(leaves(tree)));
}

template <typename T>
struct AsTuple {
  static auto make(const T& value) { return std::make_tuple(value); }
};
template <typename... T>
struct AsTuple<std::tuple<T...>> {
  static auto make(const std::tuple<T...>& value) { return value; }
};

}  // namespace flow_detail

// The same values, through which no derivative flows.
template <typename T>
T stop_gradient(const T& tree) {
  return flow_detail::map_all(tree, flow_detail::record_stop);
}

// f, whose inner values are not kept for the derivative but computed again, except those marked by
// `keep`.
template <typename F>
auto checkpoint(F f) {
  return [f = std::move(f)](const auto&... args) {
    auto call = trace_detail::trace_call(f, args...);
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    return with_leaves(std::move(call.result),
                       flow_detail::record_named("cleave.checkpoint", call.trace, leaves, {}));
  };
}

// The same value. Inside a checkpoint it is kept for the derivative:
//
//   checkpoint([](const Tensor& x, const Tensor& w) { return sin(keep(matmul(x, w))); })
//
// keeps x, w and the product, so that the product is not computed again; of the sine nothing is
// kept.
inline Tensor keep(const Tensor& x) {
  auto call = trace_detail::trace_call([](const Tensor& same) { return same; }, x);
  return flow_detail::record_named("cleave.keep", call.trace, {&x, 1}, {})[0];
}

// f with a derivative of its own:
//   fwd(args...) -> pair(what f returns, residuals)
//   bwd(residuals, cotangent of what f returns) -> cotangents of args: a tree like the argument, or
//   a tuple of them if there are several
// The functions may use no tensors but those that they are given.
template <typename F, typename Fwd, typename Bwd>
auto custom_vjp(F f, Fwd fwd, Bwd bwd) {
  return [f = std::move(f), fwd = std::move(fwd), bwd = std::move(bwd)](const auto&... args) {
    auto call = trace_detail::trace_call(f, args...);
    auto forward = trace_detail::trace_call(fwd, args...);
    const auto like = [](const auto& tree) {
      return map_leaves([](const Tensor& leaf) { return zeros(leaf.shape(), leaf.dtype()); }, tree);
    };
    auto backward =
        trace_detail::trace_call(bwd, like(forward.result.second), like(forward.result.first));
    flow_detail::check_rules(call.trace, forward.trace, backward.trace);
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    return with_leaves(
        std::move(call.result),
        flow_detail::record_named("cleave.custom_vjp", call.trace, leaves,
                                  flow_detail::rules_text(forward.trace, backward.trace)));
  };
}

// yes(args...) if the condition holds, else no(args...); both return trees of one shape.
template <typename Yes, typename No, typename... Args>
requires std::invocable<const Yes&, const Args&...>
auto cond(const Tensor& condition, const Yes& yes, const No& no, const Args&... args) {
  auto first = trace_detail::trace_call(yes, args...);
  const auto second = trace_detail::trace_call(no, args...);
  return with_leaves(std::move(first.result),
                     flow_detail::record_cond(condition, first.trace, second.trace,
                                              trace_detail::flatten(args...)));
}

// while (condition(x)) x = body(x);
template <typename Condition, typename Body, typename T>
requires std::invocable<const Condition&, const T&> T while_loop(const Condition& condition,
                                                                 const Body& body, const T& init) {
  const auto test = trace_detail::trace_call(condition, init);
  const auto step = trace_detail::trace_call(body, init);
  return with_leaves(init, flow_detail::record_while(test.trace, step.trace, leaves(init)));
}

// for (i = begin; i < end; ++i) x = body(i, x);  i is a Tensor of i32
template <typename Body, typename T>
requires std::invocable<const Body&, const Tensor&, const T&> T fori_loop(int64_t begin,
                                                                          int64_t end,
                                                                          const Body& body,
                                                                          const T& init) {
  flow_detail::check_trips(begin, end);
  using State = std::pair<Tensor, T>;
  const State start{full({}, begin, DType::I32), init};
  const State last =
      while_loop([&](const State& s) { return s.first < full({}, end, DType::I32); },
                 [&](const State& s) {
                   return State{s.first + full({}, 1, DType::I32), body(s.first, s.second)};
                 },
                 start);
  return last.second;
}

// for each i: (carry, ys[i]) = body(carry, xs[i]), along dimension 0 of all leaves of xs; gives the
// last carry and ys.
template <typename Body, typename Carry, typename X>
requires(!std::integral<X>) auto scan(const Body& body, const Carry& init, const X& xs,
                                      bool reverse = false) {
  const X slice = map_leaves([](const Tensor& x) { return flow_detail::slice_like(x); }, xs);
  auto call = trace_detail::trace_call(body, init, slice);
  auto& [carry, y] = call.result;
  const std::vector<Tensor> results =
      flow_detail::record_scan(call.trace, leaves(init), leaves(xs), reverse);
  const size_t count = leaves(carry).size();
  const std::span<const Tensor> all(results);
  return std::make_pair(with_leaves(carry, all.first(count)), with_leaves(y, all.subspan(count)));
}

// The same `length` times, without inputs: body(carry), or body(carry, i) with i a Tensor of i32.
template <typename Body, typename Carry, std::integral Length>
auto scan(const Body& body, const Carry& init, Length length, bool reverse = false) {
  flow_detail::check_trips(0, static_cast<int64_t>(length));
  const auto step = [&](const Carry& carry, const Tensor& i) {
    if constexpr (std::invocable<const Body&, const Carry&, const Tensor&>)
      return body(carry, i);
    else
      return body(carry);
  };
  return scan(step, init, iota({static_cast<int64_t>(length)}, 0), reverse);
}

}  // namespace cleave
