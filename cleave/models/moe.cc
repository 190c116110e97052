#include "cleave/models/moe.h"

#include <algorithm>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/partition_spec.h"

namespace cleave::models {
namespace {

// [b, s, experts] with a one where a token stands, and its place among the tokens of that expert
// -> [b, s, experts, capacity]. A token beyond the capacity has no place.
Tensor places(const Tensor& chosen, const Tensor& position, int64_t capacity) {
  return expand_dims(chosen, 3) * one_hot(cast(position, DType::I32), capacity, chosen.dtype());
}

// How many tokens before this one chose the same expert.
Tensor count_before(const Tensor& chosen) { return cumsum(chosen, 1) - chosen; }

// [b, experts, capacity, d], cut along examples when it is made, and along experts when it is used.
Tensor to_experts(const MoeConfig& config, const Tensor& x) {
  if (!config.parallel) return x;
  const auto& [mesh, axis] = *config.parallel;
  return x.shard(mesh, P(axis)).shard(mesh, P({}, axis));
}
Tensor from_experts(const MoeConfig& config, const Tensor& x) {
  if (!config.parallel) return x;
  const auto& [mesh, axis] = *config.parallel;
  return x.shard(mesh, P({}, axis)).shard(mesh, P(axis));
}

}  // namespace

int64_t MoeConfig::capacity() const {
  const double share = 2.0 * static_cast<double>(length) / static_cast<double>(experts);
  return std::min(length, static_cast<int64_t>(std::ceil(share * capacity_factor)));
}

Moe init_moe(const MoeConfig& config, Init& init) {
  config.check();
  if (config.experts < 2)
    throw_user("moe: every token goes to two experts, but experts={}", config.experts);
  const int64_t d = config.d, hidden = config.hidden, experts = config.experts;
  const double in = 1 / std::sqrt(static_cast<double>(d));
  const double back = 1 / std::sqrt(static_cast<double>(hidden));
  Moe params;
  params.embed = init.normal({config.vocab, d}, 1);
  for (int64_t i = 0; i < config.layers; ++i) {
    MoeLayer layer;
    layer.attention = init_attention(config, init);
    layer.moe = {init.ones({d}), init.linear(d, experts), init.normal({experts, d, hidden}, in),
                 init.normal({experts, d, hidden}, in), init.normal({experts, hidden, d}, back)};
    params.layers.push_back(std::move(layer));
  }
  params.norm = init.ones({d});
  params.head = init.linear(d, config.vocab);
  return params;
}

Routing route_top2(const Tensor& logits, int64_t capacity) {
  const int64_t experts = logits.dim(2);
  const Tensor probability = softmax(cast(logits, DType::F32), -1);
  const Tensor first = one_hot(argmax(probability, 2), experts);
  const Tensor others = where(greater(first, 0.5), -1.0, probability);
  const Tensor second = one_hot(argmax(others, 2), experts);
  const Tensor first_place = count_before(first);
  const Tensor taken = sum(first, {1}, /*keep=*/true);
  const Tensor second_place = count_before(second) + taken;
  const Tensor first_weight = sum(probability * first, {2}, /*keep=*/true);
  const Tensor second_weight = sum(probability * second, {2}, /*keep=*/true);
  const Tensor total = first_weight + second_weight;

  const Tensor a = places(first, first_place, capacity);
  const Tensor b = places(second, second_place, capacity);
  Routing routing;
  routing.dispatch = a + b;
  routing.combine =
      a * expand_dims(first_weight / total, 3) + b * expand_dims(second_weight / total, 3);
  const Tensor share = mean(first, {0, 1}), liking = mean(probability, {0, 1});
  routing.balance = sum(share * liking) * static_cast<double>(experts);
  return routing;
}

MoeOutput mixture_of_experts(const MoeConfig& config, const MoeWeights& w, const Tensor& x) {
  const Tensor h = rms_norm(x, w.norm);
  const Routing routing = route_top2(matmul(h, w.router), config.capacity());
  const Tensor dispatch = cast(routing.dispatch, x.dtype());
  const Tensor sent = to_experts(config, einsum("bsec,bsd->becd", {dispatch, h}));
  const Tensor inner =
      silu(einsum("becd,edh->bech", {sent, w.gate})) * einsum("becd,edh->bech", {sent, w.up});
  const Tensor done = from_experts(config, einsum("bech,ehd->becd", {inner, w.down}));
  return {einsum("bsec,becd->bsd", {cast(routing.combine, x.dtype()), done}), routing.balance};
}

MoeOutput moe(const MoeConfig& config, const Moe& params, const Tensor& tokens) {
  Tensor x = embedding(params.embed, tokens);
  Tensor balance;
  for (const MoeLayer& layer : params.layers) {
    x = x + self_attention(config, layer.attention, x);
    const MoeOutput mixed = mixture_of_experts(config, layer.moe, x);
    x = x + mixed.value;
    balance = balance.valid() ? balance + mixed.balance : mixed.balance;
  }
  return {matmul(rms_norm(x, params.norm), params.head),
          balance / static_cast<double>(params.layers.size())};
}

}  // namespace cleave::models
