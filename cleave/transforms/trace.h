#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/runtime/trace_scope.h"
#include "cleave/transforms/tree.h"

namespace cleave {

// A function as a graph. The arguments of "main" are the leaves of its arguments, then the
// captures: tensors from outside that it uses.
struct Trace {
  Graph graph;
  std::vector<Tensor> captures;
  std::vector<std::string> arg_names;     // by leaf: "[0].layers[0].w", "[1]"
  std::vector<std::string> result_names;  // by leaf

  size_t num_args() const { return arg_names.size(); }
  std::string text() const;  // as StableHLO
  // The same ops on other tensors, one per leaf, without running the function again: of the traced
  // types, laid out in any way, or of other sizes as far as the trace does not depend on them
  // (cleave/transforms/resize.h; a UserError names the op and the number that does).
  std::vector<Tensor> replay(std::span<const Tensor> args) const;
  // The same, for arguments as the function takes them: t(params, x).
  template <typename... Args>
  std::vector<Tensor> operator()(const Args&... args) const;
};

namespace trace_detail {

Trace finish(TraceScope& scope, const std::vector<Tensor>& results,
             std::vector<std::string> arg_names, std::vector<std::string> result_names);

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
          if (!leaf.valid()) throw_user("argument {} of a function to trace is empty", path);
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

// trace(f)(args...): runs f once on arguments without values, and gives its graph.
//   Trace t = trace(loss)(params, tokens);
//   t.text();                      // func.func @main(%w: tensor<...>, ...) { ... }
//   t(other_params, more_tokens);  // its results: other values, layouts, batch size
template <typename F>
auto trace(F f) {
  return [f = std::move(f)](const auto&... args) {
    return trace_detail::trace_call(f, args...).trace;
  };
}

}  // namespace cleave
