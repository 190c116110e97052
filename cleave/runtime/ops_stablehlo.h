#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/graph/attribute.h"
#include "cleave/runtime/tensor.h"

// StableHLO's ops under their names, as the specification has them: no broadcasting, no promotion.
// Ops on tokens, tuples, channels and dynamic sizes have no tensors to speak of and are not here;
// `replay` runs modules that use them.
namespace cleave::stablehlo {

using Ints = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;
// A body of scalar code; it may not use tensors from outside.
using Body = std::function<Tensors(std::span<const Tensor>)>;

// Any op by its full name. Types are inferred if none are given.
Tensors op(std::string_view name, std::span<const Tensor> operands, AttrDict attrs = {},
           std::vector<Type> types = {});
inline Tensor op(std::string_view name, std::initializer_list<Tensor> operands,
                 AttrDict attrs = {}) {
  return op(name, std::span<const Tensor>(operands.begin(), operands.size()), std::move(attrs))[0];
}

inline Tensor abs(const Tensor& x) { return op("stablehlo.abs", {x}); }
inline Tensor cbrt(const Tensor& x) { return op("stablehlo.cbrt", {x}); }
inline Tensor ceil(const Tensor& x) { return op("stablehlo.ceil", {x}); }
inline Tensor cosine(const Tensor& x) { return op("stablehlo.cosine", {x}); }
inline Tensor count_leading_zeros(const Tensor& x) {
  return op("stablehlo.count_leading_zeros", {x});
}
inline Tensor exponential(const Tensor& x) { return op("stablehlo.exponential", {x}); }
inline Tensor exponential_minus_one(const Tensor& x) {
  return op("stablehlo.exponential_minus_one", {x});
}
inline Tensor floor(const Tensor& x) { return op("stablehlo.floor", {x}); }
inline Tensor imag(const Tensor& x) { return op("stablehlo.imag", {x}); }
inline Tensor is_finite(const Tensor& x) { return op("stablehlo.is_finite", {x}); }
inline Tensor log(const Tensor& x) { return op("stablehlo.log", {x}); }
inline Tensor log_plus_one(const Tensor& x) { return op("stablehlo.log_plus_one", {x}); }
inline Tensor logistic(const Tensor& x) { return op("stablehlo.logistic", {x}); }
inline Tensor negate(const Tensor& x) { return op("stablehlo.negate", {x}); }
inline Tensor logical_not(const Tensor& x) { return op("stablehlo.not", {x}); }
inline Tensor popcnt(const Tensor& x) { return op("stablehlo.popcnt", {x}); }
inline Tensor real(const Tensor& x) { return op("stablehlo.real", {x}); }
inline Tensor round_nearest_afz(const Tensor& x) { return op("stablehlo.round_nearest_afz", {x}); }
inline Tensor round_nearest_even(const Tensor& x) {
  return op("stablehlo.round_nearest_even", {x});
}
inline Tensor rsqrt(const Tensor& x) { return op("stablehlo.rsqrt", {x}); }
inline Tensor sign(const Tensor& x) { return op("stablehlo.sign", {x}); }
inline Tensor sine(const Tensor& x) { return op("stablehlo.sine", {x}); }
inline Tensor sqrt(const Tensor& x) { return op("stablehlo.sqrt", {x}); }
inline Tensor tan(const Tensor& x) { return op("stablehlo.tan", {x}); }
inline Tensor tanh(const Tensor& x) { return op("stablehlo.tanh", {x}); }
inline Tensor optimization_barrier(const Tensor& x) {
  return op("stablehlo.optimization_barrier", {x});
}

inline Tensor add(const Tensor& a, const Tensor& b) { return op("stablehlo.add", {a, b}); }
inline Tensor logical_and(const Tensor& a, const Tensor& b) { return op("stablehlo.and", {a, b}); }
inline Tensor atan2(const Tensor& a, const Tensor& b) { return op("stablehlo.atan2", {a, b}); }
inline Tensor complex(const Tensor& a, const Tensor& b) { return op("stablehlo.complex", {a, b}); }
inline Tensor divide(const Tensor& a, const Tensor& b) { return op("stablehlo.divide", {a, b}); }
inline Tensor maximum(const Tensor& a, const Tensor& b) { return op("stablehlo.maximum", {a, b}); }
inline Tensor minimum(const Tensor& a, const Tensor& b) { return op("stablehlo.minimum", {a, b}); }
inline Tensor multiply(const Tensor& a, const Tensor& b) {
  return op("stablehlo.multiply", {a, b});
}
inline Tensor logical_or(const Tensor& a, const Tensor& b) { return op("stablehlo.or", {a, b}); }
inline Tensor power(const Tensor& a, const Tensor& b) { return op("stablehlo.power", {a, b}); }
inline Tensor remainder(const Tensor& a, const Tensor& b) {
  return op("stablehlo.remainder", {a, b});
}
inline Tensor shift_left(const Tensor& a, const Tensor& b) {
  return op("stablehlo.shift_left", {a, b});
}
inline Tensor shift_right_arithmetic(const Tensor& a, const Tensor& b) {
  return op("stablehlo.shift_right_arithmetic", {a, b});
}
inline Tensor shift_right_logical(const Tensor& a, const Tensor& b) {
  return op("stablehlo.shift_right_logical", {a, b});
}
inline Tensor subtract(const Tensor& a, const Tensor& b) {
  return op("stablehlo.subtract", {a, b});
}
inline Tensor logical_xor(const Tensor& a, const Tensor& b) { return op("stablehlo.xor", {a, b}); }
inline Tensor clamp(const Tensor& low, const Tensor& x, const Tensor& high) {
  return op("stablehlo.clamp", {low, x, high});
}
inline Tensor select(const Tensor& predicate, const Tensor& a, const Tensor& b) {
  return op("stablehlo.select", {predicate, a, b});
}
// Direction EQ, NE, LT, LE, GT, GE; type FLOAT, TOTALORDER, SIGNED, UNSIGNED or none.
Tensor compare(std::string_view direction, const Tensor& a, const Tensor& b,
               std::string_view type = {});

Tensor bitcast_convert(const Tensor& x, DType dtype, const Shape& shape);
Tensor broadcast_in_dim(const Tensor& x, const Shape& shape, const Ints& dims);
Tensor concatenate(std::span<const Tensor> tensors, int64_t dim);
Tensor constant(const Array& value);
Tensor convert(const Tensor& x, DType dtype);
Tensor dynamic_slice(const Tensor& x, std::span<const Tensor> starts, const Ints& sizes);
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, std::span<const Tensor> starts);
Tensor iota(DType dtype, const Shape& shape, int64_t dim);
Tensor pad(const Tensor& x, const Tensor& value, const Ints& low, const Ints& high,
           const Ints& interior);
Tensor reduce_precision(const Tensor& x, int exponent_bits, int mantissa_bits);
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reverse(const Tensor& x, const Ints& dims);
Tensor slice(const Tensor& x, const Ints& start, const Ints& limit, const Ints& strides);
Tensor transpose(const Tensor& x, const Ints& permutation);

Tensor dot_general(const Tensor& a, const Tensor& b, const Ints& batch_a, const Ints& batch_b,
                   const Ints& contract_a, const Ints& contract_b);
// Dimension numbers and windows as attributes: #stablehlo.conv, #stablehlo.gather, ...
Tensor convolution(const Tensor& x, const Tensor& kernel, AttrDict attrs);
Tensor gather(const Tensor& x, const Tensor& indices, StructAttr dims, const Ints& sizes,
              bool sorted = false);
Tensor cholesky(const Tensor& a, bool lower);
Tensor triangular_solve(const Tensor& a, const Tensor& b, bool left, bool lower, bool unit_diagonal,
                        std::string_view transpose);
Tensor fft(const Tensor& x, std::string_view type, const Ints& length);
Tensor batch_norm_inference(const Tensor& x, const Tensor& scale, const Tensor& offset,
                            const Tensor& mean, const Tensor& variance, double epsilon,
                            int64_t feature);
Tensors batch_norm_training(const Tensor& x, const Tensor& scale, const Tensor& offset,
                            double epsilon, int64_t feature);
Tensors batch_norm_grad(const Tensor& x, const Tensor& scale, const Tensor& mean,
                        const Tensor& variance, const Tensor& gradient, double epsilon,
                        int64_t feature);
// UNIFORM or NORMAL; THREE_FRY, PHILOX or DEFAULT.
Tensor rng(const Tensor& a, const Tensor& b, const Shape& shape, std::string_view distribution);
Tensors rng_bit_generator(const Tensor& state, DType dtype, const Shape& shape,
                          std::string_view algorithm);

// With bodies on scalars of the operands' dtypes.
Tensor map(std::span<const Tensor> tensors, const Body& body);
Tensors reduce(std::span<const Tensor> inputs, std::span<const Tensor> inits, const Ints& dims,
               const Body& body);
Tensors reduce_window(std::span<const Tensor> inputs, std::span<const Tensor> inits,
                      AttrDict window, const Body& body);
Tensors scatter(std::span<const Tensor> inputs, const Tensor& indices,
                std::span<const Tensor> updates, StructAttr dims, const Body& body);
Tensor select_and_scatter(const Tensor& x, const Tensor& source, const Tensor& init,
                          AttrDict window, const Body& select, const Body& combine);
Tensors sort(std::span<const Tensor> inputs, int64_t dim, bool stable, const Body& less);

}  // namespace cleave::stablehlo
