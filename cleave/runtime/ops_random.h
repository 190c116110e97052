#pragma once

#include <cstdint>
#include <optional>

#include "cleave/runtime/tensor.h"

// Random numbers. They are a function of the key and of the place of an element alone (ThreeFry),
// so they do not depend on how a tensor is sharded, and the same key gives the same numbers.
//
//   Tensor key = random_key(42);
//   Tensor keys = split_key(key, 2);                  // [2, 2]: one row per new key
//   Tensor x = normal(key, {64, 512});
//   Tensor y = dropout(select_key(keys, 0), x, 0.1);
namespace cleave {

Tensor random_key(uint64_t seed);  // u64, [2]
Tensor split_key(const Tensor& key, int64_t count);
Tensor select_key(const Tensor& keys, int64_t index);

Tensor random_bits(const Tensor& key, const Shape& shape, DType dtype = DType::U32);
Tensor uniform(const Tensor& key, const Shape& shape, double low = 0, double high = 1,
               DType dtype = DType::F32);  // in [low, high)
Tensor normal(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
Tensor bernoulli(const Tensor& key, const Shape& shape, double probability);
// Integers in [low, high).
Tensor randint(const Tensor& key, const Shape& shape, int64_t low, int64_t high,
               DType dtype = DType::I32);
// Zeros elements with probability `rate` and scales the others up.
Tensor dropout(const Tensor& key, const Tensor& x, double rate);

// Without a seed, the n-th call of the thread takes n: the same program draws the same numbers.
Tensor randn(const Shape& shape, std::optional<uint64_t> seed = std::nullopt,
             DType dtype = DType::F32);
Tensor rand(const Shape& shape, std::optional<uint64_t> seed = std::nullopt,
            DType dtype = DType::F32);

}  // namespace cleave
