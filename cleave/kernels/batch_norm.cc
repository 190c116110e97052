#include "cleave/kernels/batch_norm.h"

#include <cmath>

#include "cleave/kernels/elementwise.h"

namespace cleave {
namespace {

// A packed array as {outer, features, inner}.
struct Layout {
  int64_t outer = 1, features = 1, inner = 1;

  Layout(const Shape& shape, int64_t feature) : features(shape[feature]) {
    for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
      if (d < feature) outer *= shape[d];
      if (d > feature) inner *= shape[d];
    }
  }
  double count() const { return static_cast<double>(outer * inner); }
};

// Calls visit(i, f) for every element i, which is of feature f. Loops that the compiler vectorises
// along what lies together: the elements of a feature, or the features.
template <typename Visit>
void for_elements(const Layout& layout, Visit visit) {
  if (layout.inner == 1) {
    for (int64_t o = 0; o < layout.outer; ++o) {
      const int64_t begin = o * layout.features;
#pragma GCC ivdep
      for (int64_t f = 0; f < layout.features; ++f) visit(begin + f, f);
    }
    return;
  }
  for (int64_t o = 0; o < layout.outer; ++o)
    for (int64_t f = 0; f < layout.features; ++f) {
      const int64_t begin = (o * layout.features + f) * layout.inner;
#pragma GCC ivdep
      for (int64_t i = begin; i < begin + layout.inner; ++i) visit(i, f);
    }
}

// The sums of term(i, f) over the elements i of every feature f, in double.
template <typename Term>
std::vector<double> feature_sums(const Layout& layout, Term term) {
  std::vector<double> sums(static_cast<size_t>(layout.features));
  double* totals = sums.data();
  if (layout.inner == 1) {
    for_elements(layout, [=](int64_t i, int64_t f) { totals[f] += term(i, f); });
    return sums;
  }
  constexpr int64_t kLanes = 16;
  for (int64_t o = 0; o < layout.outer; ++o)
    for (int64_t f = 0; f < layout.features; ++f) {
      int64_t i = (o * layout.features + f) * layout.inner;
      const int64_t end = i + layout.inner;
      double lanes[kLanes] = {};
      for (; i + kLanes <= end; i += kLanes)
        for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane, f);
      for (; i < end; ++i) lanes[0] += term(i, f);
      for (double lane : lanes) totals[f] += lane;
    }
  return sums;
}

DType compute_type(DType dtype) { return dtype == DType::F64 ? DType::F64 : DType::F32; }

template <typename Visit>
void visit_type(DType dtype, Visit visit) {
  if (dtype == DType::F64)
    visit(double{});
  else
    visit(float{});
}

Array prepare(const Array& array, DType type) { return convert(array, type).contiguous(); }

template <typename T>
void normalise(const Layout& layout, const T* x, const T* scale, const T* offset, const T* mean,
               const T* variance, double epsilon, T* out) {
  std::vector<T> deviations(static_cast<size_t>(layout.features));
  for (int64_t f = 0; f < layout.features; ++f)
    deviations[static_cast<size_t>(f)] = std::sqrt(variance[f] + static_cast<T>(epsilon));
  const T* deviation = deviations.data();
  for_elements(layout, [=](int64_t i, int64_t f) {
    out[i] = scale[f] * ((x[i] - mean[f]) / deviation[f]) + offset[f];
  });
}

}  // namespace

Array batch_norm(const Array& x, const Array& scale, const Array& offset, const Array& mean,
                 const Array& variance, double epsilon, int64_t feature) {
  const DType type = compute_type(x.dtype());
  const Array in = prepare(x, type), s = prepare(scale, type), o = prepare(offset, type);
  const Array m = prepare(mean, type), v = prepare(variance, type);
  Array out(type, x.shape());
  visit_type(type, [&]<typename T>(T) {
    normalise(Layout(x.shape(), feature), in.data<T>(), s.data<T>(), o.data<T>(), m.data<T>(),
              v.data<T>(), epsilon, out.data<T>());
  });
  return convert(out, x.dtype());
}

std::vector<Array> batch_norm_training(const Array& x, const Array& scale, const Array& offset,
                                       double epsilon, int64_t feature) {
  const DType type = compute_type(x.dtype());
  const Array in = prepare(x, type), s = prepare(scale, type), o = prepare(offset, type);
  const Layout layout(x.shape(), feature);
  Array out(type, x.shape()), mean(type, {layout.features}), variance(type, {layout.features});
  visit_type(type, [&]<typename T>(T) {
    const T* values = in.data<T>();
    std::vector<double> centres =
        feature_sums(layout, [=](int64_t i, int64_t) { return static_cast<double>(values[i]); });
    for (double& centre : centres) centre /= layout.count();
    const double* centre = centres.data();
    const std::vector<double> squares = feature_sums(layout, [=](int64_t i, int64_t f) {
      const double centred = values[i] - centre[f];
      return centred * centred;
    });
    for (int64_t f = 0; f < layout.features; ++f) {
      mean.data<T>()[f] = static_cast<T>(centre[f]);
      variance.data<T>()[f] = static_cast<T>(squares[static_cast<size_t>(f)] / layout.count());
    }
    normalise(layout, values, s.data<T>(), o.data<T>(), mean.data<T>(), variance.data<T>(), epsilon,
              out.data<T>());
  });
  return {convert(out, x.dtype()), convert(mean, x.dtype()), convert(variance, x.dtype())};
}

std::vector<Array> batch_norm_grad(const Array& x, const Array& scale, const Array& mean,
                                   const Array& variance, const Array& grad, double epsilon,
                                   int64_t feature) {
  const DType type = compute_type(x.dtype());
  const Array in = prepare(x, type), s = prepare(scale, type), m = prepare(mean, type);
  const Array v = prepare(variance, type), g = prepare(grad, type);
  const Layout layout(x.shape(), feature);
  Array grad_x(type, x.shape()), grad_scale(type, {layout.features}),
      grad_offset(type, {layout.features});
  visit_type(type, [&]<typename T>(T) {
    const T *values = in.data<T>(), *incoming = g.data<T>(), *centre = m.data<T>();
    const std::vector<double> sums =
        feature_sums(layout, [=](int64_t i, int64_t) { return static_cast<double>(incoming[i]); });
    const std::vector<double> weighted = feature_sums(layout, [=](int64_t i, int64_t f) {
      return static_cast<double>(incoming[i]) * (static_cast<double>(values[i]) - centre[f]);
    });
    // grad_x = factor (grad - mean of grad - slope (x - mean))
    std::vector<double> means = sums, slopes = weighted, factors(sums.size());
    for (size_t f = 0; f < sums.size(); ++f) {
      const double spread = v.data<T>()[f] + epsilon, deviation = std::sqrt(spread);
      means[f] /= layout.count();
      slopes[f] /= spread * layout.count();
      factors[f] = s.data<T>()[f] / deviation;
      grad_scale.data<T>()[f] = static_cast<T>(weighted[f] / deviation);
      grad_offset.data<T>()[f] = static_cast<T>(sums[f]);
    }
    const double *average = means.data(), *slope = slopes.data(), *factor = factors.data();
    T* out = grad_x.data<T>();
    for_elements(layout, [=](int64_t i, int64_t f) {
      const double centred = static_cast<double>(values[i]) - centre[f];
      out[i] = static_cast<T>(factor[f] * (incoming[i] - average[f] - slope[f] * centred));
    });
  });
  return {convert(grad_x, x.dtype()), convert(grad_scale, x.dtype()),
          convert(grad_offset, x.dtype())};
}

}  // namespace cleave
