#include "cleave/discover/inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/kernels/dispatch.h"

namespace cleave {
namespace {

constexpr int kNumPatchworks = 7;

using Fill = std::function<std::vector<double>(const Shape&, NumberStream&)>;

// Every element on its own, from its index.
template <typename F>
Fill each(F value) {
  return [value](const Shape& shape, NumberStream& random) {
    std::vector<double> numbers(static_cast<size_t>(num_elements(shape)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = value(i, random);
    return numbers;
  };
}

Fill scaled_normal(double scale) {
  return each([scale](size_t, NumberStream& r) { return scale * r.normal(); });
}

// Every row along the last dimension at once.
template <typename F>
Fill rows(F fill_row) {
  return [fill_row](const Shape& shape, NumberStream& random) {
    std::vector<double> numbers(static_cast<size_t>(num_elements(shape)));
    const size_t n = shape.empty() ? 1 : static_cast<size_t>(shape.back());
    for (size_t begin = 0; n && begin < numbers.size(); begin += n)
      fill_row(std::span(numbers).subspan(begin, n), begin / n, random);
    return numbers;
  };
}

void unit_row(std::span<double> row, size_t, NumberStream& random) {
  double norm = 0;
  for (double& x : row) {
    x = random.normal();
    norm += x * x;
  }
  for (double& x : row) x /= std::sqrt(norm) + 1e-300;
}

// Rows are multiples of one vector: parallel, and as a matrix of rank one.
void parallel_row(std::span<double> row, size_t index, NumberStream& random) {
  const double factor = static_cast<double>(random.below(7)) - 3;
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = (index == 0 ? 1 : factor) * (1.0 + 0.5 * static_cast<double>(i));
}

double nonfinite(size_t i, NumberStream& random) {
  if (i % 8 == 5) return -std::numeric_limits<double>::infinity();
  const double u = random.uniform();
  if (u < 0.15) return std::numeric_limits<double>::quiet_NaN();
  if (u < 0.25) return std::numeric_limits<double>::infinity();
  if (u < 0.35) return -std::numeric_limits<double>::infinity();
  return random.normal();
}

// Ordinary numbers, and one that stands out: at the front, at the end or anywhere.
template <typename F>
Fill one_place(F outlier) {
  return [outlier](const Shape& shape, NumberStream& random) {
    std::vector<double> numbers = scaled_normal(1)(shape, random);
    if (numbers.empty()) return numbers;
    const auto n = static_cast<int64_t>(numbers.size());
    const int64_t choice = random.below(3);
    const int64_t at = choice == 0 ? 0 : choice == 1 ? n - 1 : random.below(n);
    numbers[static_cast<size_t>(at)] = outlier(random);
    return numbers;
  };
}

double spike(NumberStream& random) {
  constexpr double kSizes[] = {3e6, 1e8, 1e12, 1e20, 1e30};
  return kSizes[random.below(5)] * (random.chance(0.5) ? 1 : -1);
}

// One number at one end of every dimension: a row, a column, a matrix of it, in one shard alone.
std::vector<double> slabs(const Shape& shape, double number, bool front, NumberStream& random) {
  std::vector<double> numbers = scaled_normal(1)(shape, random);
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    if (shape[d] < 2) continue;
    for (size_t i = 0; i < numbers.size(); ++i)
      if (static_cast<int64_t>(i) / stride % shape[d] == (front ? 0 : shape[d] - 1))
        numbers[i] = number;
  }
  return numbers;
}

std::vector<double> zero_slabs(const Shape& shape, NumberStream& random) {
  return slabs(shape, 0, random.chance(0.5), random);
}

// At the end, where a shard may be smaller than the others and hold nothing else.
std::vector<double> nan_slabs(const Shape& shape, NumberStream& random) {
  return slabs(shape, std::numeric_limits<double>::quiet_NaN(), false, random);
}

double signed_zero(size_t, NumberStream& random) {
  constexpr double kNumbers[] = {-0.0, 0.0, 1, -1, 2, -0.0};
  return kNumbers[random.below(6)];
}

double any_scale(size_t, NumberStream& random) {
  return (random.chance(0.5) ? 1 : -1) * std::pow(10.0, random.uniform() * 30 - 15);
}

// Numbers that are nothing beside the others, and still not zero.
double speck(size_t, NumberStream& random) {
  constexpr double kSpecks[] = {1e-30, -1e-25, 1e-310, -1e-18};
  return random.chance(0.3) ? kSpecks[random.below(4)] : random.normal();
}

// The ends of an integer type among small numbers.
Array integer_ends(const TensorDesc& desc, NumberStream& random) {
  Array array(desc.dtype, desc.shape);
  visit_integer(desc.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Limits = std::numeric_limits<T>;
    const T values[] = {Limits::min(),
                        Limits::max(),
                        T{0},
                        T{1},
                        T{5},
                        static_cast<T>(Limits::min() + 1),
                        static_cast<T>(Limits::max() - 1),
                        static_cast<T>(-1),
                        static_cast<T>(Limits::max() / 2 + 1)};
    for (int64_t i = 0; i < array.num_elements(); ++i)
      array.data<T>()[i] = values[random.below(static_cast<int64_t>(std::size(values)))];
  });
  return array;
}

// A^T A + n I for each matrix, which has a Cholesky factor whatever A is.
void make_definite(std::vector<double>& numbers, const Shape& shape) {
  const size_t n = static_cast<size_t>(shape.back());
  for (size_t begin = 0; begin < numbers.size(); begin += n * n) {
    std::vector<double> product(n * n, 0.0);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        for (size_t k = 0; k < n; ++k) {
          const double a = numbers[begin + k * n + i], b = numbers[begin + k * n + j];
          product[i * n + j] += std::isfinite(a) && std::isfinite(b) ? a * b : 0;
        }
        if (i == j) product[i * n + j] += static_cast<double>(n);
      }
    std::copy(product.begin(), product.end(), numbers.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

void sort_rows(std::vector<double>& numbers, const Shape& shape) {
  const size_t n = shape.empty() ? 1 : static_cast<size_t>(shape.back());
  for (size_t begin = 0; n && begin < numbers.size(); begin += n)
    std::sort(numbers.begin() + static_cast<std::ptrdiff_t>(begin),
              numbers.begin() + static_cast<std::ptrdiff_t>(begin + n));
}

double into_domain(double x, const TensorDesc& desc) {
  switch (desc.domain) {
    case Domain::NonZero:
      return x == 0 ? 1 : x;
    case Domain::Positive:
      return x == 0 ? 0.5 : std::fabs(x);
    case Domain::Bool:
      return std::fmod(std::fabs(std::isfinite(x) ? x : 1), 2) >= 1 ? 1 : 0;
    case Domain::Index:
      return std::isfinite(x) ? std::fmod(std::floor(std::fabs(x)), static_cast<double>(desc.limit))
                              : 0;
    default:
      return x;
  }
}

// Narrow integer types: keep products of a few numbers inside.
double into_range(double x, DType dtype) {
  if (has_fractions(dtype) || dtype == DType::Bool) return x;
  const double limit = bit_width(dtype) <= 8 ? 11 : bit_width(dtype) <= 16 ? 101 : 100003;
  x = std::fmod(std::round(x), limit);
  return is_unsigned_integer(dtype) ? std::fabs(x) : x;
}

}  // namespace

std::vector<InputGenerator> default_generators() {
  std::vector<InputGenerator> all = {
      {"ordered", each([](size_t i, NumberStream&) { return 1.0 + static_cast<double>(i); })},
      {"normal", scaled_normal(1)},
      {"mixed_integers",
       each([](size_t, NumberStream& r) { return static_cast<double>(r.below(19)) - 9; })},
      {"ties", each([](size_t, NumberStream& r) { return static_cast<double>(r.below(3)) - 1; })},
      {"negative",
       each([](size_t i, NumberStream& r) { return -1.0 - static_cast<double>(i) - r.uniform(); })},
      {"tiny", scaled_normal(1e-3), true},
      {"small", scaled_normal(1e-1), true},
      {"large", scaled_normal(1e2)},
      {"huge", scaled_normal(1e5)},
      {"zeros", each([](size_t, NumberStream&) { return 0.0; })},
      {"ones", each([](size_t, NumberStream&) { return 1.0; })},
      {"one_hot",
       each([](size_t i, NumberStream& r) { return i % 3 == 1 && r.chance(0.7) ? 5.0 : 0.0; })},
      {"unit_vectors", rows(unit_row), true},
      {"parallel", rows(parallel_row)},
      {"descending",
       each([](size_t i, NumberStream&) { return 40.0 - 1.5 * static_cast<double>(i); })},
      {"nonfinite", each(nonfinite), true},
      {"nan_ties", each([](size_t, NumberStream& r) {
         return r.chance(0.3) ? std::numeric_limits<double>::quiet_NaN()
                              : static_cast<double>(r.below(3)) - 1;
       }),
       true},
      {"signed_zeros", each(signed_zero), false, false, true},
      {"one_nan", one_place([](NumberStream&) { return std::numeric_limits<double>::quiet_NaN(); }),
       true, true},
      {"one_infinity", one_place([](NumberStream& r) {
         return (r.chance(0.5) ? 1 : -1) * std::numeric_limits<double>::infinity();
       }),
       true, true},
      {"one_spike", one_place(spike), true, true},
      {"any_scale", each(any_scale), true, true},
      {"zero_slabs", zero_slabs, false, true},
      {"nan_slabs", nan_slabs, true, true},
      {"specks", each(speck), true},
  };
  for (int i = 1; i <= kNumPatchworks; ++i)
    all.push_back({fmt::format("patchwork_{}", i), {}, false, true, false, i});
  return all;
}

InputGenerator generator_of_values(std::string name, std::vector<double> values) {
  const bool whole = std::all_of(values.begin(), values.end(),
                                 [](double x) { return std::isfinite(x) && x == std::round(x); });
  auto pick = [values = std::move(values)](size_t, NumberStream& random) {
    return values[static_cast<size_t>(random.below(static_cast<int64_t>(values.size())))];
  };
  return {std::move(name), each(pick), !whole};
}

Array make_input(const InputGenerator& generator, const TensorDesc& desc, NumberStream& random) {
  if (generator.patchwork) return patchwork_input(generator.patchwork, desc, random);
  if (generator.integer_ends && is_integer(desc.dtype) && desc.domain == Domain::Any)
    return integer_ends(desc, random);
  Shape shape = desc.shape;
  if (is_complex(desc.dtype)) shape.push_back(2);
  std::vector<double> numbers = generator.fill(shape, random);
  if (desc.domain == Domain::Definite) {
    // A number that dwarfs the others leaves a matrix that is definite on paper only.
    if (generator.one_place)
      for (double& x : numbers) x = std::clamp(x, -1e3, 1e3);
    make_definite(numbers, desc.shape);
  }
  for (double& x : numbers) x = into_range(into_domain(x, desc), desc.dtype);
  if (desc.domain == Domain::Sorted) {
    std::replace_if(
        numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); }, 0.0);
    sort_rows(numbers, desc.shape);
  }
  return from_doubles(desc.dtype, desc.shape, numbers);
}

}  // namespace cleave
