#pragma once

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/runtime/tensor.h"

namespace cleave {

// Trees: values that hold Tensors. A Tensor is one; so are vectors, arrays, optionals, pairs,
// tuples, maps from strings, and every struct that shows its members:
//
//   struct Linear {
//     Tensor w, b;
//     template <typename Visitor>
//     void visit(Visitor&& v) { v("w", w); v("b", b); }
//   };
//   struct Model {
//     std::vector<Linear> layers;
//     int heads;                                        // no Tensor: not shown, copied along
//     template <typename Visitor>
//     void visit(Visitor&& v) { v("layers", layers); }
//   };
//
//   leaf_names(model)  ->  "layers[0].w", "layers[0].b", "layers[1].w", ...
//
// Types that hold no Tensor (numbers, strings) are trees without leaves.

namespace tree_detail {

struct Probe {
  template <typename T>
  void operator()(const char*, T&) const {}
};
template <typename T>
concept Shown = requires(T& t) {
  t.visit(Probe{});
};

inline std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

template <typename T>
struct IsTuple : std::false_type {};
template <typename... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <typename A, typename B>
struct IsTuple<std::pair<A, B>> : std::true_type {};
template <typename T>
struct IsSequence : std::false_type {};
template <typename T>
struct IsSequence<std::vector<T>> : std::true_type {};
template <>
struct IsSequence<std::vector<bool>> : std::false_type {};  // its elements have no address
template <typename T, size_t n>
struct IsSequence<std::array<T, n>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename T, typename C>
struct IsMap<std::map<std::string, T, C>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

}  // namespace tree_detail

// Calls f(path, Tensor&) for every leaf, in order.
template <typename T, typename F>
void for_each_leaf(T& tree, const F& f, const std::string& path = {}) {
  using namespace tree_detail;
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, Tensor>) {
    f(path, tree);
  } else if constexpr (IsSequence<U>::value) {
    for (size_t i = 0; i < tree.size(); ++i)
      for_each_leaf(tree[i], f, path + "[" + std::to_string(i) + "]");
  } else if constexpr (IsMap<U>::value) {
    for (auto& [name, value] : tree) for_each_leaf(value, f, joined(path, name));
  } else if constexpr (IsOptional<U>::value) {
    if (tree) for_each_leaf(*tree, f, path);
  } else if constexpr (IsTuple<U>::value) {
    [&]<size_t... i>(std::index_sequence<i...>) {
      (for_each_leaf(std::get<i>(tree), f, path + "[" + std::to_string(i) + "]"), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<U>>());
  } else if constexpr (Shown<U>) {
    const_cast<U&>(tree).visit(
        [&](const char* name, auto& member) { for_each_leaf(member, f, joined(path, name)); });
  }
}

template <typename T>
std::vector<Tensor> leaves(const T& tree) {
  std::vector<Tensor> result;
  for_each_leaf(tree, [&](const std::string&, const Tensor& leaf) { result.push_back(leaf); });
  return result;
}

template <typename T>
std::vector<std::string> leaf_names(const T& tree, const std::string& root = {}) {
  std::vector<std::string> result;
  for_each_leaf(
      tree, [&](const std::string& path, const Tensor&) { result.push_back(path); }, root);
  return result;
}

// The same tree with other leaves.
template <typename T>
T with_leaves(T tree, std::span<const Tensor> values) {
  size_t next = 0;
  for_each_leaf(tree, [&](const std::string& path, Tensor& leaf) {
    if (next >= values.size())
      throw_user("a tree has more leaves than the {} that are given; '{}' gets none", values.size(),
                 path);
    leaf = values[next++];
  });
  if (next != values.size())
    throw_user("a tree has {} leaves, and {} are given", next, values.size());
  return tree;
}

// f on each leaf, and on the leaves of two trees of one shape in pairs.
//   params = map_leaves([&](Tensor p, Tensor g) { return p - 0.1 * g; }, params, grads);
template <typename F, typename T>
T map_leaves(const F& f, T tree) {
  for_each_leaf(tree, [&](const std::string&, Tensor& leaf) { leaf = f(leaf); });
  return tree;
}
template <typename F, typename T>
T map_leaves(const F& f, T tree, const T& other) {
  const std::vector<Tensor> second = leaves(other);
  size_t next = 0;
  for_each_leaf(tree, [&](const std::string& path, Tensor& leaf) {
    if (next >= second.size()) throw_user("trees of two shapes: only one has '{}'", path);
    leaf = f(leaf, second[next++]);
  });
  if (next != second.size())
    throw_user("trees of two shapes: one has {} leaves and the other {}", next, second.size());
  return tree;
}

}  // namespace cleave
