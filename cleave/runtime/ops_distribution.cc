#include "cleave/runtime/ops_distribution.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/stopped.h"

namespace cleave {
namespace {

void check_real(std::string_view op, DType dtype) {
  if (!is_float(dtype)) throw_user("{}: {} is not a float; cast the result", op, name(dtype));
}

DType drawn_type(DType dtype) { return dtype == DType::F64 ? DType::F64 : DType::F32; }

// In (0, 1), symmetric: the middles of the cells of which `uniform` gives the lower ends. A 0 that
// is merely made positive would be an outlier, of 87 for exponentials.
Tensor open_unit(const Tensor& key, const Shape& shape, DType dtype) {
  return uniform(key, shape, 0, 1, dtype) + (dtype == DType::F64 ? 0x1p-53 : 0x1p-24);
}

Tensor parameter(std::string_view op, const Operand& given, const Shape& shape, DType dtype) {
  const Tensor value =
      given.is_tensor() ? cast(given.tensor(), dtype) : scalar(given.number(), dtype);
  if (broadcast_shapes(op, value.shape(), shape) != shape)
    throw_user("{}: a parameter <{}> does not broadcast to <{}>", op, to_string(value.shape()),
               to_string(shape));
  return broadcast_to(value, shape);
}

Shape joined(Shape front, const Shape& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

// Marsaglia and Tsang: d (1 + c x)^3 for a normal x, of a shape parameter of 1 or more, with
// d = a - 1/3; rounds after the first fill in what was rejected.
Tensor large_log_gamma(const Tensor& key, const Tensor& a, const Shape& shape, DType dtype) {
  constexpr int64_t kRounds = 8;
  const Tensor keys = split_key(key, 2 * kRounds);
  const Tensor d = a - 1.0 / 3, c = rsqrt(d * 9);
  Tensor result = zeros(shape, dtype), done = zeros(shape, DType::Bool);
  for (int64_t i = 0; i < kRounds; ++i) {
    const Tensor x = normal(select_key(keys, 2 * i), shape, dtype);
    const Tensor base = c * x + 1, positive = base > 0;
    const Tensor log_v = log(where(positive, base, 1)) * 3;
    const Tensor bound = square(x) * 0.5 + d - d * exp(log_v) + d * log_v;
    const Tensor good =
        positive && less(log(open_unit(select_key(keys, 2 * i + 1), shape, dtype)), bound);
    result = where(good && !done, log_v, result);
    done = done || good;
  }
  return result + log(d);
}

// The derivative of log z by a, for a sample z of gamma(a) that keeps its place among all samples:
// -F_a / (z F_z), with F(a, z) the distribution function. With t = z exp(-s) below z, or z exp(s)
// above it (both integrals add up to 0; the one of the shorter tail is taken), it is the integral
// of
//   -+exp(-+a s - z (exp(-+s) - 1)) (log z -+ s - digamma(a))   over s from 0 to infinity,
// by the double exponential rule s = exp(u - exp(-u)), with u in steps of 0.1: at most 3e-10 of it
// are left out for a from 1e-4 to 1e6.
Tensor log_gamma_slope(const Tensor& parameter, const Tensor& log_sample) {
  constexpr double kStep = 0.1, kFirst = -3.5;
  constexpr int64_t kPoints = 86;
  const Tensor u = iota({kPoints}, 0, DType::F64) * kStep + kFirst;
  const Tensor inner = exp(-u), at = exp(u - inner), weight = at * (inner + 1) * kStep;
  auto column = [](const Tensor& x) { return expand_dims(cast(x, DType::F64), x.rank()); };
  const Tensor a = column(parameter), log_z = column(log_sample), z = exp(log_z);
  const Tensor below = z < maximum(a, 1), sign = where(below, -1.0, 1.0);
  const Tensor rate = where(below, maximum(a - z, minimum(a, sqrt(a))), maximum(z - a, sqrt(z)));
  const Tensor s = sign * at / rate;
  const Tensor density = exp(a * s - z * expm1(minimum(s, 300)));
  return sum(density * (log_z + s - digamma(a)) * weight, {-1}) *
         reshape(sign / rate, log_sample.shape());
}

// Poisson by inversion, for rates up to 10: how many partial sums of probabilities a number
// exceeds.
Tensor small_poisson(const Tensor& key, const Tensor& rate, const Shape& shape) {
  constexpr int kMost = 48;  // beyond it is less than 2^-53
  const Tensor u = uniform(key, shape, 0, 1, DType::F64);
  Tensor term = exp(-rate), total = term, count = zeros(shape, DType::F64);
  for (int k = 1; k <= kMost; ++k) {
    count = count + cast(u > total, DType::F64);
    term = term * rate / k;
    total = total + term;
  }
  return count;
}

// Hörmann's transformed rejection (PTRS), for rates from 10 on; each round accepts at least 0.8.
Tensor large_poisson(const Tensor& key, const Tensor& rate, const Shape& shape) {
  constexpr int64_t kRounds = 14;
  const Tensor keys = split_key(key, 2 * kRounds);
  const Tensor b = sqrt(rate) * 2.53 + 0.931, a = b * 0.02483 - 0.059;
  const Tensor inverse_alpha = 1.1328 / (b - 3.4) + 1.1239, v_r = 0.9277 - 3.6224 / (b - 2);
  const Tensor log_rate = log(rate);
  Tensor result = floor(rate), done = zeros(shape, DType::Bool);
  for (int64_t i = 0; i < kRounds; ++i) {
    const Tensor u = uniform(select_key(keys, 2 * i), shape, 0, 1, DType::F64) - 0.5;
    const Tensor v = open_unit(select_key(keys, 2 * i + 1), shape, DType::F64);
    const Tensor us = 0.5 - abs(u);
    const Tensor k = floor((a * 2 / us + b) * u + rate + 0.43);
    const Tensor known = k >= 0;
    const Tensor near = us >= 0.07 && v <= v_r;
    const Tensor far = us < 0.013 && v > us;
    const Tensor left = log(v * inverse_alpha / (a / square(us) + b));
    const Tensor right = k * log_rate - rate - lgamma(where(known, k, 0) + 1);
    const Tensor good = known && (near || (!far && left <= right));
    result = where(good && !done, k, result);
    done = done || good;
  }
  return result;
}

}  // namespace

Tensor truncated_normal(const Tensor& key, double low, double high, const Shape& shape,
                        DType dtype) {
  check_real("truncated_normal", dtype);
  if (!(low < high)) throw_user("truncated_normal: no numbers between {} and {}", low, high);
  const DType drawn = drawn_type(dtype);
  const double a = std::erf(low / std::numbers::sqrt2), b = std::erf(high / std::numbers::sqrt2);
  const Tensor x = erf_inv(uniform(key, shape, a, b, drawn)) * std::numbers::sqrt2;
  auto inside = [&](double bound, double towards) {
    return drawn == DType::F64 ? std::nextafter(bound, towards)
                               : static_cast<double>(std::nextafter(static_cast<float>(bound),
                                                                    static_cast<float>(towards)));
  };
  return cast(clip(x, inside(low, INFINITY), inside(high, -INFINITY)), dtype);
}

Tensor bernoulli(const Tensor& key, const Shape& shape, const Tensor& probability) {
  return uniform(key, shape) < parameter("bernoulli", probability, shape, DType::F32);
}
Tensor rademacher(const Tensor& key, const Shape& shape, DType dtype) {
  return cast(where(uniform(key, shape) < 0.5, 1, -1), dtype);
}
Tensor gumbel(const Tensor& key, const Shape& shape, DType dtype) {
  check_real("gumbel", dtype);
  return cast(-log(exponential(key, shape, drawn_type(dtype))), dtype);
}
Tensor exponential(const Tensor& key, const Shape& shape, DType dtype) {
  check_real("exponential", dtype);
  return cast(-log(open_unit(key, shape, drawn_type(dtype))), dtype);
}
Tensor laplace(const Tensor& key, const Shape& shape, DType dtype) {
  check_real("laplace", dtype);
  const Tensor u = open_unit(key, shape, drawn_type(dtype)) * 2 - 1;
  return cast(sign(u) * -log1p(-abs(u)), dtype);
}
Tensor logistic(const Tensor& key, const Shape& shape, DType dtype) {
  check_real("logistic", dtype);
  const Tensor u = open_unit(key, shape, drawn_type(dtype));
  return cast(log(u) - log1p(-u), dtype);
}
Tensor cauchy(const Tensor& key, const Shape& shape, DType dtype) {
  check_real("cauchy", dtype);
  const Tensor u = open_unit(key, shape, drawn_type(dtype));
  return cast(tan((u - 0.5) * std::numbers::pi), dtype);
}

Tensor log_gamma(const Tensor& key, const Operand& shape_parameter, const Shape& shape,
                 DType dtype) {
  check_real("gamma", dtype);
  const DType drawn = drawn_type(dtype);
  const Tensor a = parameter("gamma", shape_parameter, shape, drawn);
  const Tensor keys = split_key(key, 2), small = a < 1;
  // Of a below 1: gamma(a + 1) u^(1 / a).
  const Tensor large = large_log_gamma(select_key(keys, 0), where(small, a + 1, a), shape, drawn);
  const Tensor u = open_unit(select_key(keys, 1), shape, drawn);
  const Tensor drawn_log = where(small, large + log(u) / a, large);
  const Tensor result = stopped(where(a > 0, drawn_log, std::numeric_limits<double>::quiet_NaN()));
  if (!a.is_traced() && trace_level() == 0) return cast(result, dtype);
  const Tensor still = stopped(a), slope = cast(log_gamma_slope(still, result), drawn);
  const Tensor none = (a - still) * stopped(where(is_finite(slope), slope, 0));
  return cast(result + where(is_finite(none), none, 0), dtype);
}
Tensor gamma(const Tensor& key, const Operand& shape_parameter, const Shape& shape, DType dtype) {
  check_real("gamma", dtype);
  return cast(exp(log_gamma(key, shape_parameter, shape, drawn_type(dtype))), dtype);
}
Tensor beta(const Tensor& key, const Operand& a, const Operand& b, const Shape& shape,
            DType dtype) {
  check_real("beta", dtype);
  const Tensor keys = split_key(key, 2);
  const Tensor x = log_gamma(select_key(keys, 0), a, shape, drawn_type(dtype));
  const Tensor y = log_gamma(select_key(keys, 1), b, shape, drawn_type(dtype));
  return cast(sigmoid(x - y), dtype);
}
Tensor chi_square(const Tensor& key, const Operand& freedom, const Shape& shape, DType dtype) {
  check_real("chi_square", dtype);
  const Tensor half = parameter("chi_square", freedom, shape, drawn_type(dtype)) * 0.5;
  return cast(gamma(key, half, shape, drawn_type(dtype)) * 2, dtype);
}
Tensor student_t(const Tensor& key, const Operand& freedom, const Shape& shape, DType dtype) {
  check_real("student_t", dtype);
  const DType drawn = drawn_type(dtype);
  const Tensor keys = split_key(key, 2), n = parameter("student_t", freedom, shape, drawn);
  const Tensor x = normal(select_key(keys, 0), shape, drawn);
  return cast(x * sqrt(n * 0.5 / gamma(select_key(keys, 1), n * 0.5, shape, drawn)), dtype);
}
Tensor dirichlet(const Tensor& key, const Tensor& concentration, const Shape& shape, DType dtype) {
  check_real("dirichlet", dtype);
  if (concentration.rank() == 0) throw_user("dirichlet: takes concentrations [..., k]");
  const Shape full = joined(shape, concentration.shape());
  return cast(softmax(log_gamma(key, concentration, full, drawn_type(dtype))), dtype);
}

Tensor poisson(const Tensor& key, const Operand& rate, const Shape& shape, DType dtype) {
  const Tensor mean = stopped(parameter("poisson", rate, shape, DType::F64));
  const Tensor keys = split_key(key, 2), is_small = mean < 10;
  const Tensor low = small_poisson(select_key(keys, 0), where(is_small, mean, 1), shape);
  const Tensor high = large_poisson(select_key(keys, 1), where(is_small, 10, mean), shape);
  return cast(where(mean >= 0, where(is_small, low, high), -1), dtype);
}

Tensor categorical(const Tensor& key, const Tensor& logits, const Shape& shape, int64_t dim) {
  const int64_t d = checked_dim("categorical", dim, logits.rank());
  const DType dtype = drawn_type(logits.dtype());
  const Shape full = joined(shape, logits.shape());
  return argmax(cast(logits, dtype) + gumbel(key, full, dtype),
                d + static_cast<int64_t>(shape.size()));
}

Tensor permutation(const Tensor& key, int64_t count) {
  if (count < 0) throw_user("permutation: of {} numbers", count);
  return argsort(random_bits(key, {count}, DType::U64), 0);
}
Tensor permutation(const Tensor& key, const Tensor& x, int64_t dim) {
  const int64_t d = checked_dim("permutation", dim, x.rank());
  return take(x, permutation(key, x.dim(d)), d);
}

Tensor choice(const Tensor& key, const Tensor& x, int64_t count, const ChoiceOptions& options) {
  if (x.rank() == 0 || count < 0 || (count > 0 && x.dim(0) == 0))
    throw_user("choice: {} elements of tensor<{}>", count, to_string(x.shape()));
  const int64_t size = x.dim(0);
  const Tensor& weights = options.weights;
  if (weights.valid() && weights.shape() != Shape{size})
    throw_user("choice: tensor<{}> takes {} weights, got <{}>", to_string(x.shape()), size,
               to_string(weights.shape()));
  if (!options.replace && count > size)
    throw_user("choice: {} elements of {} without replacement", count, size);
  Tensor places;
  if (options.replace)
    places = weights.valid() ? categorical(key, log(weights), {count})
                             : randint(key, {count}, 0, std::max<int64_t>(size, 1));
  else if (weights.valid())
    places = top_k(log(cast(weights, DType::F32)) + gumbel(key, {size}), count).indices;
  else
    places = slice_dim(permutation(key, size), 0, 0, count);
  return take(x, places, 0);
}

}  // namespace cleave
