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

// Calls visit(i) for every element of feature f.
template <typename Visit>
void for_feature(const Layout& layout, int64_t f, Visit visit) {
  for (int64_t o = 0; o < layout.outer; ++o) {
    const int64_t begin = (o * layout.features + f) * layout.inner;
    for (int64_t i = begin; i < begin + layout.inner; ++i) visit(i);
  }
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
  for (int64_t f = 0; f < layout.features; ++f) {
    const T deviation = std::sqrt(variance[f] + static_cast<T>(epsilon));
    for_feature(layout, f,
                [&](int64_t i) { out[i] = scale[f] * ((x[i] - mean[f]) / deviation) + offset[f]; });
  }
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
    for (int64_t f = 0; f < layout.features; ++f) {
      double sum = 0, squares = 0;
      for_feature(layout, f, [&](int64_t i) { sum += values[i]; });
      const double centre = sum / layout.count();
      for_feature(layout, f,
                  [&](int64_t i) { squares += (values[i] - centre) * (values[i] - centre); });
      mean.data<T>()[f] = static_cast<T>(centre);
      variance.data<T>()[f] = static_cast<T>(squares / layout.count());
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
    const T *values = in.data<T>(), *incoming = g.data<T>();
    for (int64_t f = 0; f < layout.features; ++f) {
      const double centre = m.data<T>()[f], spread = v.data<T>()[f] + epsilon;
      const double deviation = std::sqrt(spread), count = layout.count();
      double sum = 0, weighted = 0;
      for_feature(layout, f, [&](int64_t i) {
        sum += incoming[i];
        weighted += incoming[i] * (values[i] - centre);
      });
      const double factor = s.data<T>()[f] / deviation / count;
      for_feature(layout, f, [&](int64_t i) {
        const double centred = values[i] - centre;
        grad_x.data<T>()[i] =
            static_cast<T>(factor * (incoming[i] * count - sum - weighted * centred / spread));
      });
      grad_scale.data<T>()[f] = static_cast<T>(weighted / deviation);
      grad_offset.data<T>()[f] = static_cast<T>(sum);
    }
  });
  return {convert(grad_x, x.dtype()), convert(grad_scale, x.dtype()),
          convert(grad_offset, x.dtype())};
}

}  // namespace cleave
