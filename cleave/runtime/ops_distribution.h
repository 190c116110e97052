#pragma once

#include <cstdint>
#include <optional>

#include "cleave/runtime/promotion.h"
#include "cleave/runtime/tensor.h"

// Distributions beside those of ops_random.h. Numbers are a function of the key and of the place of
// an element, whatever the sharding. Parameters are numbers or tensors that broadcast to the shape;
// derivatives flow to a location and a scale (uniform, normal, gumbel, ... times s plus m), and to
// the parameters of gamma and of what is made of it (implicit reparameterisation, as in JAX: first
// derivatives only, second ones are 0). None flow through integers.
namespace cleave {

// Normal, between low and high.
Tensor truncated_normal(const Tensor& key, double low, double high, const Shape& shape,
                        DType dtype = DType::F32);
Tensor bernoulli(const Tensor& key, const Shape& shape, const Tensor& probability);
Tensor rademacher(const Tensor& key, const Shape& shape, DType dtype = DType::I32);  // -1 or 1
Tensor gumbel(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
Tensor exponential(const Tensor& key, const Shape& shape, DType dtype = DType::F32);  // rate 1
Tensor laplace(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
Tensor logistic(const Tensor& key, const Shape& shape, DType dtype = DType::F32);
Tensor cauchy(const Tensor& key, const Shape& shape, DType dtype = DType::F32);

// By rejection, in eight rounds: of 10^10 elements one is rejected in all of them, and is the mode.
Tensor gamma(const Tensor& key, const Operand& shape_parameter, const Shape& shape,
             DType dtype = DType::F32);  // scale 1
Tensor log_gamma(const Tensor& key, const Operand& shape_parameter, const Shape& shape,
                 DType dtype = DType::F32);  // its logarithm, which does not underflow
Tensor beta(const Tensor& key, const Operand& a, const Operand& b, const Shape& shape,
            DType dtype = DType::F32);
Tensor chi_square(const Tensor& key, const Operand& freedom, const Shape& shape,
                  DType dtype = DType::F32);
Tensor student_t(const Tensor& key, const Operand& freedom, const Shape& shape,
                 DType dtype = DType::F32);
// Parts of a whole: [..., k] for concentrations [..., k], with `shape` in front.
Tensor dirichlet(const Tensor& key, const Tensor& concentration, const Shape& shape = {},
                 DType dtype = DType::F32);
// Counts with a mean of `rate`; up to 10 by inversion, above by rejection.
Tensor poisson(const Tensor& key, const Operand& rate, const Shape& shape,
               DType dtype = DType::I32);

// A class for each row of logits, by softmax(logits): `shape` in front of the shape without `dim`.
//   categorical(key, logits [8, 50]) -> i32 [8]     categorical(key, logits, {3}) -> [3, 8]
Tensor categorical(const Tensor& key, const Tensor& logits, const Shape& shape = {},
                   int64_t dim = -1);
Tensor permutation(const Tensor& key, int64_t count);                     // of 0 ... count - 1, i32
Tensor permutation(const Tensor& key, const Tensor& x, int64_t dim = 0);  // slices, shuffled
struct ChoiceOptions {
  bool replace = true;
  Tensor weights = {};  // of each element; they need not add up to 1
};
// `count` elements of x along dimension 0.
Tensor choice(const Tensor& key, const Tensor& x, int64_t count, const ChoiceOptions& options = {});

}  // namespace cleave
