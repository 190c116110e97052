#include "cleave/runtime/ops_norm.h"

#include <cmath>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/stopped.h"

namespace cleave {
namespace {

DType computed_type(DType dtype) { return dtype == DType::F64 ? dtype : DType::F32; }

int64_t channel_dim(std::string_view op, const Tensor& x, ImageLayout layout) {
  if (x.rank() < 2 || is_complex(x.dtype()))
    throw_user("{}: takes real [b, ..., c] or [b, c, ...], got {}", op, to_string(x.type()));
  return layout == ImageLayout::ChannelsLast ? x.rank() - 1 : 1;
}

void check_epsilon(std::string_view op, double epsilon) {
  if (!(epsilon >= 0) || std::isinf(epsilon))
    throw_user("{}: epsilon is {}; it must be a number that is not negative", op, epsilon);
}

// A vector by channel, as it stands beside x.
Tensor by_channel(std::string_view op, const char* what, const Tensor& vector, const Tensor& x,
                  int64_t dim) {
  if (vector.shape() != Shape{x.dim(dim)})
    throw_user("{}: tensor<{}> takes a {} of <{}>, got <{}>", op, to_string(x.shape()), what,
               x.dim(dim), to_string(vector.shape()));
  Shape shape(x.shape().size(), 1);
  shape[static_cast<size_t>(dim)] = x.dim(dim);
  return reshape(cast(vector, computed_type(x.dtype())), shape);
}

Tensor scaled(std::string_view op, Tensor y, const Tensor& x, const Tensor& weight,
              const Tensor& bias, int64_t dim) {
  if (weight.valid()) y = y * by_channel(op, "weight", weight, x, dim);
  if (bias.valid()) y = y + by_channel(op, "bias", bias, x, dim);
  return cast(y, real_type(x.dtype()));
}

}  // namespace

BatchNorm batch_norm(const Tensor& given, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_variance,
                     const BatchNormOptions& options) {
  const int64_t dim = channel_dim("batch_norm", given, options.layout);
  check_epsilon("batch_norm", options.epsilon);
  const Tensor x = cast(given, computed_type(given.dtype()));
  auto beside = [&](const char* what, const Tensor& vector) {
    return by_channel("batch_norm", what, vector, x, dim);
  };
  const Tensor old_mean = beside("running mean", running_mean);
  const Tensor old_variance = beside("running variance", running_variance);
  if (!options.training) {
    const Tensor y = (x - old_mean) * rsqrt(old_variance + options.epsilon);
    return {scaled("batch_norm", y, given, weight, bias, dim), running_mean, running_variance};
  }
  Dims dims;
  double count = 1;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != dim) {
      dims.push_back(d);
      count *= static_cast<double>(x.dim(d));
    }
  const Tensor center = mean(x, dims, true);
  const Tensor centered = x - center;
  const Tensor variance = mean(square(centered), dims, true);
  const Tensor y = centered * rsqrt(variance + options.epsilon);
  auto moved = [&](const Tensor& old, const Tensor& now) {
    const Tensor next = reshape(old * (1 - options.momentum) + now * options.momentum, {-1});
    return cast(stopped(next), real_type(running_mean.dtype()));
  };
  const double unbiased = count > 1 ? count / (count - 1) : 1;
  return {scaled("batch_norm", y, given, weight, bias, dim), moved(old_mean, center),
          moved(old_variance, variance * unbiased)};
}

Tensor group_norm(const Tensor& given, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double epsilon, ImageLayout layout) {
  const int64_t dim = channel_dim("group_norm", given, layout), channels = given.dim(dim);
  check_epsilon("group_norm", epsilon);
  if (groups <= 0 || channels % groups != 0)
    throw_user("group_norm: {} channels in {} groups of one size", channels, groups);
  const Tensor x = cast(given, computed_type(given.dtype()));
  Shape shape = x.shape();
  shape[static_cast<size_t>(dim)] = channels / groups;
  shape.insert(shape.begin() + dim, groups);
  const Tensor parts = reshape(x, shape);
  Dims dims;
  for (int64_t d = 1; d < parts.rank(); ++d)
    if (d != dim) dims.push_back(d);
  const Tensor centered = parts - mean(parts, dims, true);
  const Tensor y = centered * rsqrt(mean(square(centered), dims, true) + epsilon);
  return scaled("group_norm", reshape(y, x.shape()), given, weight, bias, dim);
}

Tensor cross_entropies(const Tensor& logits, const Tensor& labels,
                       const CrossEntropyOptions& options) {
  const double part = options.label_smoothing;
  if (!(part >= 0 && part <= 1))
    throw_user("cross_entropy: label_smoothing is {}; it must be in [0, 1]", part);
  Tensor counted = labels, left_out;
  if (options.ignore_index) {
    left_out = equal(labels, scalar(*options.ignore_index, DType::I64));
    counted = where(left_out, scalar(0, labels.dtype()), labels);
    // Labels that are there are checked, so those that are left to count are computed.
    if (labels.is_computed() && !labels.is_traced()) counted.evaluate();
  }
  Tensor rows = cross_entropies(logits, counted);
  if (part > 0)
    rows =
        rows * (1 - part) -
        mean(cast(log_softmax(cast(logits, computed_type(logits.dtype()))), rows.dtype()), {-1}) *
            part;
  return options.ignore_index ? where(left_out, 0, rows) : rows;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options) {
  const Tensor rows = cross_entropies(logits, labels, options);
  if (!options.ignore_index) return mean(rows);
  const Tensor counts = sum(not_equal(labels, scalar(*options.ignore_index, DType::I64)));
  return sum(rows) / cast(counts, rows.dtype());
}

}  // namespace cleave
