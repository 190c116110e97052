#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cleave/runtime/tensor.h"
#include "cleave/train/transformation.h"
#include "cleave/transforms/tree.h"

// Optimizers are transformations of gradients, which chain:
//
//   Optimizer opt = chain({clip_by_global_norm(1), adamw(warmup_cosine(1e-3, 100, 1000))});
//   OptState state = opt.init(params);
//   auto step = compile([&](const Gpt& p, const OptState& s, const Tensor& tokens) {
//     auto [loss, grads] = value_and_grad(loss_of)(p, tokens);
//     auto [next, state] = opt.step(p, grads, s);
//     return std::make_tuple(loss, next, state);
//   }, {.donate = {0, 1}});
//
// The transformations themselves are in transformations.h and optimizers.h.
namespace cleave::train {

// What an optimizer remembers: a tree of Tensors with names, which is an argument and a result of
// a step as parameters are, and is saved with them.
//
//   "m.layers[0].w", "v.layers[0].w", "step"
//
// Moments are f32 for parameters of f16 and bf16, and are laid out as their parameters are.
using OptState = std::map<std::string, Tensor>;

// A transformation of gradients for any tree of parameters.
class Optimizer {
 public:
  explicit Optimizer(TransformationPtr transformation)
      : transformation_(std::move(transformation)) {}

  template <typename T>
  OptState init(const T& params) const {
    return init_leaves(named_leaves(params));
  }

  // The changes of parameters, to be added to them (apply_updates), and the next state.
  template <typename T>
  std::pair<T, OptState> update(const T& grads, const OptState& state, const T& params) const {
    auto [updates, next] = update_leaves(leaves(grads), state, named_leaves(params));
    return {with_leaves(params, updates), std::move(next)};
  }

  // The next parameters and the next state.
  template <typename T>
  std::pair<T, OptState> step(const T& params, const T& grads, const OptState& state) const;

  const TransformationPtr& transformation() const { return transformation_; }

 private:
  OptState init_leaves(const NamedLeaves& params) const;
  std::pair<std::vector<Tensor>, OptState> update_leaves(std::vector<Tensor> grads,
                                                         const OptState& state,
                                                         const NamedLeaves& params) const;

  TransformationPtr transformation_;
};

// One after another, each on what the one before it gives. If two of them remember something under
// one name, the second one's is called "m_2" and so on.
Optimizer chain(const std::vector<Optimizer>& parts);

// p + u, computed in f32 (f64 for parameters of f64), in the type of p.
Tensor apply_update(const Tensor& p, const Tensor& u);
template <typename T>
T apply_updates(const T& params, const T& updates) {
  return map_leaves(apply_update, params, updates);
}

template <typename T>
std::pair<T, OptState> Optimizer::step(const T& params, const T& grads,
                                       const OptState& state) const {
  auto [updates, next] = update(grads, state, params);
  return {apply_updates(params, updates), std::move(next)};
}

}  // namespace cleave::train
