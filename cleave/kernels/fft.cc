#include "cleave/kernels/fft.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <memory>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"

namespace cleave {
namespace {

using Complex = std::complex<double>;

// The transform of one length: by its prime factors, or, where one is large, as a convolution with
// a chirp of a power-of-two length (Bluestein).
class Transform {
 public:
  explicit Transform(int64_t n)
      : n_(n), roots_(static_cast<size_t>(n)), scratch_(static_cast<size_t>(n)) {
    for (int64_t i = 0; i < n; ++i) roots_[i] = root(i, n);
    int64_t rest = n;
    for (int64_t p = 2; p <= kLargestPrime; ++p)
      while (rest % p == 0) rest /= p;
    if (rest > 1) prepare_chirp();
  }

  void run(Complex* line) {
    if (n_ <= 1) return;
    if (inner_) return run_chirp(line);
    std::copy_n(line, n_, scratch_.begin());
    recurse(scratch_.data(), 1, line, n_);
  }

 private:
  static constexpr int64_t kLargestPrime = 31;

  static Complex root(int64_t i, int64_t n) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    return {std::cos(angle), std::sin(angle)};
  }

  // out[0, n) is the transform of in[0], in[stride], ...
  void recurse(const Complex* in, int64_t stride, Complex* out, int64_t n) {
    if (n == 1) {
      out[0] = in[0];
      return;
    }
    int64_t p = 2;
    while (n % p != 0) ++p;
    const int64_t m = n / p, step = n_ / n;
    for (int64_t r = 0; r < p; ++r) recurse(in + r * stride, stride * p, out + r * m, m);
    Complex parts[kLargestPrime];
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t r = 0; r < p; ++r) parts[r] = out[r * m + k] * roots_[r * k * step];
      for (int64_t q = 0; q < p; ++q) {
        Complex sum = parts[0];
        for (int64_t r = 1; r < p; ++r) sum += parts[r] * roots_[(r * q * m * step) % n_];
        out[q * m + k] = sum;
      }
    }
  }

  void prepare_chirp() {
    const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n_ - 1)));
    inner_ = std::make_unique<Transform>(size);
    chirp_.resize(static_cast<size_t>(n_));
    filter_.resize(static_cast<size_t>(size));
    for (int64_t i = 0; i < n_; ++i) chirp_[i] = root((i * i) % (2 * n_), 2 * n_);
    filter_[0] = std::conj(chirp_[0]);
    for (int64_t i = 1; i < n_; ++i) filter_[i] = filter_[size - i] = std::conj(chirp_[i]);
    inner_->run(filter_.data());
  }

  void run_chirp(Complex* line) {
    const auto size = static_cast<int64_t>(filter_.size());
    std::vector<Complex> work(filter_.size());
    for (int64_t i = 0; i < n_; ++i) work[i] = line[i] * chirp_[i];
    inner_->run(work.data());
    // The inverse transform is the forward one of conjugates.
    for (int64_t i = 0; i < size; ++i) work[i] = std::conj(work[i] * filter_[i]);
    inner_->run(work.data());
    for (int64_t i = 0; i < n_; ++i)
      line[i] = std::conj(work[i]) / static_cast<double>(size) * chirp_[i];
  }

  int64_t n_;
  std::vector<Complex> roots_, scratch_;
  std::unique_ptr<Transform> inner_;  // of the chirp's length
  std::vector<Complex> chirp_, filter_;
};

// Transforms every line along `dim` of a packed C128 array, in place.
void transform_dim(Array& data, size_t dim, bool inverse) {
  const int64_t n = data.shape()[dim], stride = data.strides()[dim];
  Transform transform(n);
  std::vector<Complex> line(static_cast<size_t>(n));
  Complex* elements = data.data<Complex>();
  for (int64_t begin = 0; begin < data.num_elements(); ++begin) {
    if (begin / stride % n != 0) continue;
    for (int64_t i = 0; i < n; ++i) {
      const Complex value = elements[begin + i * stride];
      line[i] = inverse ? std::conj(value) : value;
    }
    transform.run(line.data());
    for (int64_t i = 0; i < n; ++i)
      elements[begin + i * stride] =
          inverse ? std::conj(line[i]) / static_cast<double>(n) : line[i];
  }
}

// {..., n / 2 + 1} -> {..., n}: the other half of the spectrum of a real signal along the last
// dimension, which must be the only one that is not transformed back yet.
Array with_other_half(const Array& half, int64_t n) {
  Shape shape = half.shape();
  const int64_t held = shape.back();
  shape.back() = n;
  Array whole(DType::C128, shape);
  for (int64_t row = 0; row < half.num_elements() / held; ++row)
    for (int64_t i = 0; i < n; ++i) {
      const Complex* in = half.data<Complex>() + row * held;
      Complex value = i < held ? in[i] : std::conj(in[n - i]);
      if (i == 0 || 2 * i == n) value = value.real();
      whole.data<Complex>()[row * n + i] = value;
    }
  return whole;
}

}  // namespace

Array fft(const Array& input, FftKind kind, const std::vector<int64_t>& lengths) {
  const size_t rank = input.rank(), first = rank - lengths.size();
  const bool wide = input.dtype() == DType::F64 || input.dtype() == DType::C128;
  Shape shape = input.shape();
  if (kind == FftKind::RealForward && shape.back() > 0) shape.back() = shape.back() / 2 + 1;
  if (kind == FftKind::RealInverse) shape.back() = lengths.back();
  const DType type = kind == FftKind::RealInverse ? (wide ? DType::F64 : DType::F32)
                                                  : (wide ? DType::C128 : DType::C64);
  if (num_elements(shape) == 0) return Array(type, shape);
  if (input.num_elements() == 0) return Array::zeros(type, shape);
  Array data = convert(input, DType::C128).copy();
  switch (kind) {
    case FftKind::Forward:
    case FftKind::Inverse:
      for (size_t d = rank; d-- > first;) transform_dim(data, d, kind == FftKind::Inverse);
      break;
    case FftKind::RealForward:
      transform_dim(data, rank - 1, false);
      data = data.slice(Shape(rank, 0), shape).contiguous();
      for (size_t d = rank - 1; d-- > first;) transform_dim(data, d, false);
      break;
    case FftKind::RealInverse:
      for (size_t d = first; d + 1 < rank; ++d) transform_dim(data, d, true);
      data = with_other_half(data, lengths.back());
      transform_dim(data, rank - 1, true);
      return convert(unary(UnaryOp::Real, data), type);
  }
  return convert(data, type);
}

}  // namespace cleave
