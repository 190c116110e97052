#pragma once

#include <cstdint>

#include "cleave/core/dtype.h"
#include "cleave/runtime/tensor.h"

// Initial weights, each from a key of its own. Numbers do not depend on layouts, and nothing is
// computed until a value is read.
//
//   const Tensor keys = split_key(random_key(42), 2);
//   Tensor w = xavier_uniform(select_key(keys, 0), {512, 2048});
//   Tensor e = embedding(select_key(keys, 1), 50257, 512);
//
// The last two dimensions of a weight are its inputs and its outputs; dimensions before them are
// those of a kernel, [height, width, in, out], and count for both.
namespace cleave::models {

struct Fans {
  int64_t in = 1, out = 1;
};
// {3, 3, 16, 32} -> 144 in, 288 out. Throws UserError for fewer than two dimensions.
Fans fans_of(const Shape& shape);

// Normal numbers within two standard deviations, times `scale`.
Tensor truncated_normal(const Tensor& key, const Shape& shape, double scale = 1,
                        DType dtype = DType::F32);

enum class Fan : uint8_t { In, Out, Average };
enum class Spread : uint8_t { Normal, TruncatedNormal, Uniform };
// Numbers around 0 whose variance is scale / fan.
Tensor variance_scaled(const Tensor& key, const Shape& shape, double scale, Fan fan, Spread spread,
                       DType dtype = DType::F32);

// 1 / average of the fans (Glorot and Bengio).
Tensor xavier_uniform(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
Tensor xavier_normal(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
// 2 / inputs (He, also called Kaiming): for relu.
Tensor he_uniform(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
Tensor he_normal(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
// 1 / inputs (LeCun).
Tensor lecun_uniform(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
Tensor lecun_normal(const Tensor& key, const Shape& shape, DType dtype = DType::F32);

// A random matrix [rows, columns] whose rows, or columns if they are fewer, are orthogonal and of
// length `scale`; all such matrices are equally likely.
Tensor orthogonal(const Tensor& key, const Shape& shape, double scale = 1,
                  DType dtype = DType::F32);
// [vocab, width] of normal numbers with the variance 1 / width, so that a row has the length 1.
Tensor embedding(const Tensor& key, int64_t vocab, int64_t width, DType dtype = DType::F32);

}  // namespace cleave::models
