#pragma once

#include <string>

#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/transforms/grad.h"
#include "cleave/transforms/tree.h"

// Losses and optimizers: plain functions over trees of weights.
//
//   auto step = [&](const Gpt& p, const AdamState<Gpt>& s, const Tensor& tokens) {
//     auto [loss, g] = value_and_grad(loss_of)(p, tokens);
//     auto [next, state] = adamw(p, g, s);
//     return std::make_tuple(loss, next, state);
//   };
namespace cleave::models {

Tensor mean_squared_error(const Tensor& value, const Tensor& target);
// For every position of tokens [b, s], the token after it; the last position gets the first token.
Tensor shift(const Tensor& tokens);
// Logits [b, s, vocab] against the tokens [b, s] that follow: position i predicts i + 1.
Tensor next_token_loss(const Tensor& logits, const Tensor& tokens);

template <typename T>
T sgd(const T& params, const T& grads, double rate = 0.1) {
  return map_leaves([&](const Tensor& p, const Tensor& g) { return p - g * rate; }, params, grads);
}

template <typename T>
T zeros_for(const T& params) {
  return map_leaves([](const Tensor& p) { return zeros_like(p); }, params);
}

// Momentum: v = decay v + g, p = p - rate v.
template <typename T>
std::pair<T, T> momentum(const T& params, const T& grads, const T& velocity, double rate = 0.1,
                         double decay = 0.9) {
  const T next =
      map_leaves([&](const Tensor& v, const Tensor& g) { return v * decay + g; }, velocity, grads);
  return {sgd(params, next, rate), next};
}

template <typename T>
struct AdamState {
  T m, v;       // running means of gradients and of their squares, f32
  Tensor step;  // f32, a number
  template <typename Visitor>
  void visit(Visitor&& visitor) {
    visitor("m", m);
    visitor("v", v);
    visitor("step", step);
  }
};

struct AdamOptions {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
};

template <typename T>
AdamState<T> init_adam(const T& params) {
  auto zero = [](const Tensor& p) {
    const Tensor z = zeros(p.shape(), DType::F32);
    return p.mesh() ? z.with_sharding(p.sharding()) : z;
  };
  // The number of steps is laid out as the weights are, as it will be after the first step.
  Tensor step = zeros({}, DType::F32);
  for (const Tensor& p : leaves(params))
    if (p.mesh() && !step.mesh()) step = step.shard(*p.mesh(), P());
  return {map_leaves(zero, params), map_leaves(zero, params), step};
}

// AdamW: the decay of weights is separate from the gradient.
template <typename T>
std::pair<T, AdamState<T>> adamw(const T& params, const T& grads, const AdamState<T>& state,
                                 const AdamOptions& options = {}) {
  AdamState<T> next;
  next.step = state.step + 1.0;
  auto wide = [](const Tensor& g) { return cast(g, DType::F32); };
  next.m =
      map_leaves([&](const Tensor& m,
                     const Tensor& g) { return m * options.beta1 + wide(g) * (1 - options.beta1); },
                 state.m, grads);
  next.v = map_leaves(
      [&](const Tensor& v, const Tensor& g) {
        return v * options.beta2 + square(wide(g)) * (1 - options.beta2);
      },
      state.v, grads);
  const Tensor m_scale = 1.0 / (1.0 - pow(options.beta1, next.step));
  const Tensor v_scale = 1.0 / (1.0 - pow(options.beta2, next.step));
  const T moves = map_leaves(
      [&](const Tensor& m, const Tensor& v) {
        return (m * m_scale) / (sqrt(v * v_scale) + options.epsilon);
      },
      next.m, next.v);
  const T moved = map_leaves(
      [&](const Tensor& p, const Tensor& move) {
        return cast(wide(p) - (move + wide(p) * options.weight_decay) * options.rate, p.dtype());
      },
      params, moves);
  return {moved, std::move(next)};
}

}  // namespace cleave::models
