#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/runtime/trace_scope.h"
#include "cleave/transforms/tree.h"

namespace cleave {

// Where the examples are, by argument and by result. An argument that is a tree has them at the
// same place in all of its leaves.
struct VmapAxes {
  using Axis = std::optional<int64_t>;  // from the end if negative; nothing: shared by all
  std::vector<Axis> in = {};            // empty: 0 in every argument
  std::vector<Axis> out = {};  // of a tuple or pair, one per member, or one for all; empty: 0
  int64_t size = 0;            // needed only if no argument has examples
  std::string spmd_axis = {};  // shards the examples over this mesh axis
};

namespace vmap_detail {

using Axis = VmapAxes::Axis;

// One leaf of the arguments, with its name for messages.
struct Leaf {
  std::string name;
  Tensor tensor;
  Axis axis;  // from the front
};

// The entry for argument or result i. Throws UserError if the list has another length.
Axis axis_of(const std::vector<Axis>& axes, size_t i, size_t count, const char* what);
// Takes a leaf with its axis counted from the front.
Leaf checked_leaf(std::string name, const Tensor& tensor, const Axis& axis);
// The number of examples that all leaves have.
int64_t num_examples(const std::vector<Leaf>& leaves, int64_t given);
// One example of a leaf: an argument of the trace.
Tensor stand_in(TraceScope& scope, const Leaf& leaf);
// The traced function on all examples.
std::vector<Tensor> run(Traced traced, const std::vector<Leaf>& leaves,
                        const std::vector<Axis>& out, int64_t size, const std::string& spmd_axis);

}  // namespace vmap_detail

// A function of one example as a function of many, over trees of Tensors:
//
//   auto predict = [](const Params& p, const Tensor& x) { return softmax(matmul(x, p.w)); };
//   vmap(predict, {.in = {std::nullopt, 0}})(params, images)     // one set of parameters
//   vmap(predict)(ensemble, images)                              // a set for each image
//
// The function is traced with one example of each argument, its graph is batched
// (cleave/transforms/vmap.h), and the outcome is recorded on the arguments. These may be arguments
// of an outer trace: vmap, grad and the others compose in any order. Tensors from outside that the
// function uses are shared by all examples.
template <typename F>
auto vmap(F f, VmapAxes axes = {}) {
  return [f = std::move(f), axes = std::move(axes)](const auto&... args) {
    using namespace vmap_detail;
    constexpr size_t count = sizeof...(args);
    std::vector<Leaf> leaves;
    size_t index = 0;
    auto add = [&](const auto& tree) {
      const Axis axis = axis_of(axes.in, index, count, "in");
      const std::string root = "argument " + std::to_string(index++);
      for_each_leaf(
          tree,
          [&](const std::string& path, const Tensor& leaf) {
            leaves.push_back(checked_leaf(path, leaf, axis));
          },
          root);
    };
    (add(args), ...);
    const int64_t size = num_examples(leaves, axes.size);

    TraceScope scope;
    size_t next = 0;
    auto example = [&]<typename T>(T tree) {
      for_each_leaf(
          tree, [&](const std::string&, Tensor& leaf) { leaf = stand_in(scope, leaves[next++]); });
      return tree;
    };
    std::tuple<std::decay_t<decltype(args)>...> inside{example(args)...};
    auto result = std::apply(f, inside);

    using R = decltype(result);
    std::vector<Axis> out;
    auto add_out = [&](const auto& tree, size_t i, size_t members) {
      const Axis axis = axis_of(axes.out, i, members, "out");
      out.insert(out.end(), cleave::leaves(tree).size(), axis);
    };
    if constexpr (tree_detail::IsTuple<R>::value) {
      [&]<size_t... i>(std::index_sequence<i...>) {
        (add_out(std::get<i>(result), i, sizeof...(i)), ...);
      }
      (std::make_index_sequence<std::tuple_size_v<R>>());
    } else {
      add_out(result, 0, 1);
    }
    Traced traced = scope.finish(cleave::leaves(result));
    const std::vector<Tensor> values = run(std::move(traced), leaves, out, size, axes.spmd_axis);
    return with_leaves(std::move(result), values);
  };
}

}  // namespace cleave
