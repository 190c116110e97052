#include "cleave/runtime/ops_resize.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_arrange.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

double lanczos(double x, double radius) {
  if (x >= radius) return 0;
  const double angle = std::numbers::pi * x;
  return x <= 1e-3 ? 1 : radius * std::sin(angle) * std::sin(angle / radius) / (angle * angle);
}

// How much a sample at distance x, in cells, counts.
double weight_at(Interpolation method, double x) {
  switch (method) {
    case Interpolation::Linear:
      return std::max(0.0, 1 - x);
    case Interpolation::Cubic:  // Keys, with a = -1/2
      if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
      return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
    case Interpolation::Lanczos3:
      return lanczos(x, 3);
    case Interpolation::Lanczos5:
      return lanczos(x, 5);
    case Interpolation::Nearest:
      break;
  }
  throw_internal("nearest elements have no weights");
}

// [in, out]: how much each old element counts in each new one.
Tensor weights_of(int64_t in, int64_t out, Interpolation method, bool antialias, DType dtype) {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  const double cell = antialias ? std::max(step, 1.0) : 1;
  std::vector<double> weights(static_cast<size_t>(in * out), 0);
  for (int64_t j = 0; j < out; ++j) {
    const double center = (static_cast<double>(j) + 0.5) * step - 0.5;
    if (center < -0.5 || center > static_cast<double>(in) - 0.5) continue;
    double total = 0;
    auto weight = [&](int64_t i) -> double& { return weights[static_cast<size_t>(i * out + j)]; };
    for (int64_t i = 0; i < in; ++i)
      total += weight(i) = weight_at(method, std::abs(center - static_cast<double>(i)) / cell);
    if (std::abs(total) <= 1000 * std::numeric_limits<float>::epsilon()) total = INFINITY;
    for (int64_t i = 0; i < in; ++i) weight(i) /= total;
  }
  const Tensor matrix = Tensor::from(DType::F64, {in, out}, weights);
  matrix.record()->constant = true;
  return cast(matrix, dtype);
}

Tensor nearest(const Tensor& x, int64_t dim, int64_t out) {
  const double step = static_cast<double>(x.dim(dim)) / static_cast<double>(out);
  std::vector<int32_t> places;
  for (int64_t j = 0; j < out; ++j)
    places.push_back(static_cast<int32_t>(std::floor((static_cast<double>(j) + 0.5) * step)));
  return take(x, Tensor::from(DType::I32, {out}, places), dim);
}

}  // namespace

Tensor interpolate(const Tensor& x, const Shape& shape, Interpolation method, bool antialias) {
  if (shape.size() != x.shape().size())
    throw_user("interpolate: tensor<{}> to <{}>: the ranks differ", to_string(x.shape()),
               to_string(shape));
  Tensor result = method == Interpolation::Nearest ? x : cast(x, real_type(x.dtype()));
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t in = x.dim(d), out = shape[static_cast<size_t>(d)];
    if (out < 0 || (in == 0 && out > 0))
      throw_user("interpolate: dimension {} of tensor<{}> to size {}", d, to_string(x.shape()),
                 out);
    if (in == out) continue;
    if (method == Interpolation::Nearest || out == 0)
      result = nearest(result, d, out);
    else
      result = move_dim(
          matmul(move_dim(result, d, -1), weights_of(in, out, method, antialias, result.dtype())),
          -1, d);
  }
  return result;
}

}  // namespace cleave
