#include "cleave/models/initializers.h"

#include <cmath>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/runtime/ops_shape.h"

namespace cleave::models {
namespace {

// The standard deviation of normal numbers within two of theirs.
constexpr double kTruncatedDeviation = 0.87962566103423978;

// A tall matrix with orthogonal columns: what Q is of A = QR with a positive diagonal of R, by the
// triangle of A^T A. A second round removes what the first one's rounding left.
Tensor orthogonal_columns(Tensor a) {
  for (int round = 0; round < 2; ++round)
    a = triangular_solve(cholesky(matmul(transpose(a), a)), a, {.left = false, .transpose = true});
  return a;
}

}  // namespace

Fans fans_of(const Shape& shape) {
  if (shape.size() < 2)
    throw_user("a weight of shape <{}> has no inputs and outputs; it needs two dimensions",
               to_string(shape));
  int64_t field = 1;
  for (size_t d = 0; d + 2 < shape.size(); ++d) field *= shape[d];
  return {field * shape[shape.size() - 2], field * shape.back()};
}

Tensor truncated_normal(const Tensor& key, const Shape& shape, double scale, DType dtype) {
  const double end = std::erf(std::numbers::sqrt2);
  const Tensor drawn = erf_inv(uniform(key, shape, -end, end)) * std::numbers::sqrt2;
  return cast(clip(drawn, -2.0, 2.0) * scale, dtype);
}

Tensor variance_scaled(const Tensor& key, const Shape& shape, double scale, Fan fan, Spread spread,
                       DType dtype) {
  const Fans fans = fans_of(shape);
  const auto in = static_cast<double>(fans.in), out = static_cast<double>(fans.out);
  const double count = fan == Fan::In ? in : fan == Fan::Out ? out : (in + out) / 2;
  const double variance = scale / std::max(1.0, count);
  switch (spread) {
    case Spread::Normal:
      return cast(cleave::normal(key, shape) * std::sqrt(variance), dtype);
    case Spread::TruncatedNormal:
      return truncated_normal(key, shape, std::sqrt(variance) / kTruncatedDeviation, dtype);
    case Spread::Uniform:
      break;
  }
  const double end = std::sqrt(3 * variance);
  return cast(uniform(key, shape, -end, end), dtype);
}

Tensor xavier_uniform(const Tensor& key, const Shape& shape, DType dtype) {
  return variance_scaled(key, shape, 1, Fan::Average, Spread::Uniform, dtype);
}
Tensor xavier_normal(const Tensor& key, const Shape& shape, DType dtype) {
  return variance_scaled(key, shape, 1, Fan::Average, Spread::TruncatedNormal, dtype);
}
Tensor he_uniform(const Tensor& key, const Shape& shape, DType dtype) {
  return variance_scaled(key, shape, 2, Fan::In, Spread::Uniform, dtype);
}
Tensor he_normal(const Tensor& key, const Shape& shape, DType dtype) {
  return variance_scaled(key, shape, 2, Fan::In, Spread::TruncatedNormal, dtype);
}
Tensor lecun_uniform(const Tensor& key, const Shape& shape, DType dtype) {
  return variance_scaled(key, shape, 1, Fan::In, Spread::Uniform, dtype);
}
Tensor lecun_normal(const Tensor& key, const Shape& shape, DType dtype) {
  return variance_scaled(key, shape, 1, Fan::In, Spread::TruncatedNormal, dtype);
}

Tensor orthogonal(const Tensor& key, const Shape& shape, double scale, DType dtype) {
  if (shape.size() != 2)
    throw_user("orthogonal: a shape <{}> is not that of a matrix", to_string(shape));
  const bool wide = shape[0] < shape[1];
  const Shape tall = wide ? Shape{shape[1], shape[0]} : shape;
  const Tensor q = orthogonal_columns(cast(cleave::normal(key, tall), DType::F64));
  return cast((wide ? transpose(q) : q) * scale, dtype);
}

Tensor embedding(const Tensor& key, int64_t vocab, int64_t width, DType dtype) {
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  return cast(cleave::normal(key, {vocab, width}) * scale, dtype);
}

}  // namespace cleave::models
