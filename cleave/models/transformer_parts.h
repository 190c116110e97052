#pragma once

#include <optional>

#include "cleave/models/transformer.h"

// Parts of a transformer's layers that transformer.cc and decode.cc have in common.
namespace cleave::models::parts {

// [b, s, heads * size] -> [b, heads, s, size], and back.
Tensor split_heads(const Tensor& x, int64_t heads);
Tensor merge_heads(const Tensor& x);
// A weight in the type that the model computes in.
Tensor in_type(const GptConfig& config, const Tensor& w);
// x w + bias. `by_rows`: tensor parallelism splits w by rows, so that a border follows.
Tensor linear(const GptConfig& config, const Tensor& x, const Tensor& w,
              const std::optional<Tensor>& bias, bool by_rows = false);
Tensor normed(const GptConfig& config, const Tensor& x, const Tensor& w,
              const std::optional<Tensor>& bias);
// The last norm and the head: [b, s, d] -> [b, s, vocab].
Tensor logits_of(const GptConfig& config, const Gpt& params, const Tensor& x);
// Turns pairs of features of x [b, h, s, size] by angles that broadcast to [b, h, s, size / 2].
Tensor rotated(const Tensor& x, const Tensor& angle);
// Positions of f32, [..., s, half] along the last dimension -> angles.
Tensor rotary_angle(const GptConfig& config, const Tensor& position, const Shape& shape);

}  // namespace cleave::models::parts
