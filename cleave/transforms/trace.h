#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/runtime/seeds.h"
#include "cleave/runtime/trace_scope.h"
#include "cleave/transforms/tree.h"

namespace cleave {

// A size of an argument that a replay of the trace must keep, and what depends on it.
struct HeldSize {
  size_t argument = 0, dim = 0;  // a leaf, and a dimension of it
  std::string why;
};

// A function as a graph. The arguments of "main" are the leaves of its arguments, then the
// captures: tensors from outside that it uses.
struct Trace {
  Graph graph;
  std::vector<Tensor> captures;
  std::vector<std::string> arg_names;     // by leaf: "[0].layers[0].w", "[1]"
  std::vector<std::string> result_names;  // by leaf
  bool knows_sizes = false;               // `held` was looked for
  std::vector<HeldSize> held;

  size_t num_args() const { return arg_names.size(); }
  std::string text() const;  // as StableHLO
  // The same ops on other tensors, one per leaf, without running the function again: of the traced
  // types, laid out in any way, or of other sizes as far as the trace does not depend on them
  // (cleave/transforms/resize.h, and what `trace` found out; a UserError names the op and the
  // number that does).
  std::vector<Tensor> replay(std::span<const Tensor> args) const;
  // The same, for arguments as the function takes them: t(params, x).
  template <typename... Args>
  std::vector<Tensor> operator()(const Args&... args) const;
};

namespace trace_detail {

Trace finish(TraceScope& scope, const std::vector<Tensor>& results,
             std::vector<std::string> arg_names, std::vector<std::string> result_names);
// Fills `held`. `again` runs the function on arguments of other types
// (cleave/transforms/trace_sizes.cc).
using TraceAgain = std::function<Trace(std::span<const Type>)>;
void find_held_sizes(Trace& trace, const TraceAgain& again);

[[noreturn]] void throw_empty_argument(const std::string& path);  // "[1]layers[0].w"

template <typename... Args>
std::vector<Tensor> flatten(const Args&... args) {
  std::vector<Tensor> result;
  auto add = [&](const auto& tree) {
    for (Tensor& leaf : leaves(tree)) result.push_back(std::move(leaf));
  };
  (add(args), ...);
  return result;
}

}  // namespace trace_detail

template <typename... Args>
std::vector<Tensor> Trace::operator()(const Args&... args) const {
  return replay(trace_detail::flatten(args...));
}

namespace trace_detail {

// A trace with what a caller needs to put results together again.
template <typename R>
struct TracedCall {
  Trace trace;
  R result;  // holds tensors of the trace: a shape to fill in
};

template <typename F, typename... Args>
auto trace_call(const F& f, const Args&... args) {
  using R = std::decay_t<std::invoke_result_t<const F&, const Args&...>>;
  TraceScope scope;
  std::vector<std::string> names;
  size_t index = 0;
  auto stand_in = [&]<typename T>(T tree) {
    for_each_leaf(
        tree,
        [&](const std::string& path, Tensor& leaf) {
          if (!leaf.valid()) throw_empty_argument(sizeof...(Args) == 1 ? "[0]" + path : path);
          names.push_back(path);
          leaf = scope.placeholder_like(leaf, path);
        },
        sizeof...(Args) == 1 ? std::string() : "[" + std::to_string(index) + "]");
    ++index;
    return tree;
  };
  std::tuple<Args...> inside{stand_in(args)...};
  R result = std::apply(f, inside);
  const std::vector<std::string> result_names = leaf_names(result);
  Trace trace = finish(scope, leaves(result), std::move(names), result_names);
  return TracedCall<R>{std::move(trace), std::move(result)};
}

}  // namespace trace_detail

struct TraceOptions {
  // Whether the trace may be replayed with other sizes. To find out which ones, f runs a few times
  // more: if the graph that it gives for a size is not the one that this trace becomes for that
  // size, f has made a number of the size (x / x.dim(0)), has looped over it, or asks for it.
  bool other_sizes = true;
};

// trace(f)(args...): runs f on arguments without values, and gives its graph.
//   Trace t = trace(loss)(params, tokens);
//   t.text();                      // func.func @main(%w: tensor<...>, ...) { ... }
//   t(other_params, more_tokens);  // its results: other values, layouts, batch size
template <typename F>
auto trace(F f, TraceOptions options = {}) {
  return [f = std::move(f), options](const auto&... args) {
    const uint64_t seed = next_seed();
    Trace first = trace_detail::trace_call(f, args...).trace;
    if (!options.other_sizes) return first;
    trace_detail::find_held_sizes(first, [&](std::span<const Type> types) {
      const KeepSeeds seeds(seed);
      TraceScope outer;
      size_t next = 0;
      auto resized = [&]<typename T>(T tree) {
        for_each_leaf(tree, [&](const std::string&, Tensor& leaf) {
          leaf = outer.placeholder(types[next++],
                                   leaf.mesh() ? std::optional(leaf.sharding()) : std::nullopt);
        });
        return tree;
      };
      const std::tuple<std::decay_t<decltype(args)>...> inside{resized(args)...};
      return std::apply([&](const auto&... a) { return trace_detail::trace_call(f, a...).trace; },
                        inside);
    });
    // f runs once more, so that what it leaves behind outside is of these sizes.
    next_seed() = seed;
    Trace last = trace_detail::trace_call(f, args...).trace;
    last.held = std::move(first.held);
    last.knows_sizes = true;
    return last;
  };
}

}  // namespace cleave
