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
    work_.resize(static_cast<size_t>(size));
    for (int64_t i = 0; i < n_; ++i) chirp_[i] = root((i * i) % (2 * n_), 2 * n_);
    filter_[0] = std::conj(chirp_[0]);
    for (int64_t i = 1; i < n_; ++i) filter_[i] = filter_[size - i] = std::conj(chirp_[i]);
    inner_->run(filter_.data());
  }

  void run_chirp(Complex* line) {
    const auto size = static_cast<int64_t>(filter_.size());
    std::vector<Complex>& work = work_;
    std::fill(work.begin(), work.end(), Complex());
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
  std::vector<Complex> chirp_, filter_, work_;
};

Shape with_last(Shape shape, int64_t size) {
  shape.back() = size;
  return shape;
}

}  // namespace

// One dimension after the other, in C128.
struct FourierTransform::Plan {
  DType input, output;
  FftKind kind;
  Shape in_shape, shape;                               // of the input and of the result
  size_t first = 0;                                    // dimension that is transformed
  std::vector<std::unique_ptr<Transform>> transforms;  // by dimension, from `first`
  mutable std::vector<Complex> line;
  Loop widen = nullptr, narrow = nullptr;

  // Transforms every line along `dim`, in place.
  void transform(Complex* data, const Shape& of, size_t dim, bool inverse) const {
    const int64_t n = of[dim];
    int64_t inner = 1, outer = 1;
    for (size_t d = 0; d < of.size(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : of[d];
    Transform& transform = *transforms[dim - first];
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        Complex* const at = data + o * n * inner + i;
        for (int64_t k = 0; k < n; ++k) {
          const Complex value = at[k * inner];
          line[k] = inverse ? std::conj(value) : value;
        }
        transform.run(line.data());
        for (int64_t k = 0; k < n; ++k)
          at[k * inner] = inverse ? std::conj(line[k]) / static_cast<double>(n) : line[k];
      }
  }

  // {..., n} -> {..., n / 2 + 1}, in place.
  void drop_other_half(Complex* data, int64_t n) const {
    const int64_t held = shape.back();
    for (int64_t row = 0; row < num_elements(shape) / held; ++row)
      std::copy(data + row * n, data + row * n + held, data + row * held);
  }

  // {..., n / 2 + 1} -> {..., n}: the other half of the spectrum of a real signal along the last
  // dimension, which must be the only one that is not transformed back yet.
  void add_other_half(const Complex* half, Complex* whole) const {
    const int64_t n = shape.back(), held = in_shape.back();
    for (int64_t row = 0; row < num_elements(shape) / n; ++row)
      for (int64_t i = 0; i < n; ++i) {
        const Complex* in = half + row * held;
        Complex value = i < held ? in[i] : std::conj(in[n - i]);
        if (i == 0 || 2 * i == n) value = value.real();
        whole[row * n + i] = value;
      }
  }

  int64_t num_in() const { return num_elements(in_shape); }
};

FourierTransform::FourierTransform(DType input, const Shape& shape, FftKind kind,
                                   const std::vector<int64_t>& lengths)
    : plan_(std::make_unique<Plan>()) {
  Plan& p = *plan_;
  const bool wide = input == DType::F64 || input == DType::C128;
  p.input = input;
  p.kind = kind;
  p.in_shape = p.shape = shape;
  p.first = shape.size() - lengths.size();
  if (kind == FftKind::RealForward && shape.back() > 0)
    p.shape = with_last(shape, shape.back() / 2 + 1);
  if (kind == FftKind::RealInverse) p.shape = with_last(shape, lengths.back());
  p.output = kind == FftKind::RealInverse ? (wide ? DType::F64 : DType::F32)
                                          : (wide ? DType::C128 : DType::C64);
  if (num_elements(p.shape) == 0 || num_elements(p.in_shape) == 0) return;
  int64_t longest = 1;
  for (size_t d = p.first; d < shape.size(); ++d) {
    const int64_t n = d + 1 == shape.size() && kind == FftKind::RealInverse ? p.shape[d] : shape[d];
    p.transforms.push_back(std::make_unique<Transform>(n));
    longest = std::max(longest, n);
  }
  p.line.resize(static_cast<size_t>(longest));
  p.widen = convert_loop(input, DType::C128);
  if (kind != FftKind::RealInverse) p.narrow = convert_loop(DType::C128, p.output);
}

FourierTransform::~FourierTransform() = default;
const Shape& FourierTransform::result_shape() const { return plan_->shape; }
DType FourierTransform::result_dtype() const { return plan_->output; }

size_t FourierTransform::work_bytes() const {
  const int64_t more = plan_->kind == FftKind::RealInverse ? num_elements(plan_->shape) : 0;
  return static_cast<size_t>(plan_->num_in() + more) * sizeof(Complex);
}

void FourierTransform::run(const std::byte* input, std::byte* result, std::byte* work) const {
  const Plan& p = *plan_;
  const size_t rank = p.shape.size();
  auto* data = reinterpret_cast<Complex*>(work);
  if (p.widen)
    p.widen(&input, work, p.num_in());
  else
    std::copy_n(reinterpret_cast<const Complex*>(input), p.num_in(), data);
  switch (p.kind) {
    case FftKind::Forward:
    case FftKind::Inverse:
      for (size_t d = rank; d-- > p.first;)
        p.transform(data, p.shape, d, p.kind == FftKind::Inverse);
      break;
    case FftKind::RealForward:
      p.transform(data, p.in_shape, rank - 1, false);
      p.drop_other_half(data, p.in_shape.back());
      for (size_t d = rank - 1; d-- > p.first;) p.transform(data, p.shape, d, false);
      break;
    case FftKind::RealInverse: {
      for (size_t d = p.first; d + 1 < rank; ++d) p.transform(data, p.in_shape, d, true);
      Complex* const whole = data + p.num_in();
      p.add_other_half(data, whole);
      p.transform(whole, p.shape, rank - 1, true);
      for (int64_t i = 0; i < num_elements(p.shape); ++i) {
        if (p.output == DType::F64)
          reinterpret_cast<double*>(result)[i] = whole[i].real();
        else
          reinterpret_cast<float*>(result)[i] = static_cast<float>(whole[i].real());
      }
      return;
    }
  }
  const std::byte* from = work;
  if (p.narrow)
    p.narrow(&from, result, num_elements(p.shape));
  else
    std::copy_n(data, num_elements(p.shape), reinterpret_cast<Complex*>(result));
}

Array fft(const Array& input, FftKind kind, const std::vector<int64_t>& lengths) {
  const FourierTransform transform(input.dtype(), input.shape(), kind, lengths);
  if (num_elements(transform.result_shape()) == 0 || input.num_elements() == 0)
    return Array::zeros(transform.result_dtype(), transform.result_shape());
  const Array packed = input.contiguous();
  Array result(transform.result_dtype(), transform.result_shape());
  const Buffer work = allocate(transform.work_bytes());
  transform.run(packed.raw(), result.raw(), work.get());
  return result;
}

}  // namespace cleave
