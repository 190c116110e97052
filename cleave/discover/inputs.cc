#include "cleave/discover/inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/kernels/dispatch.h"

namespace cleave {
namespace {

constexpr int kNumPatchworks = 7;

using Fill = std::function<std::vector<double>(const FillContext&, NumberStream&)>;

// Every element on its own, from its index.
template <typename F>
Fill each(F value) {
  return [value](const FillContext& context, NumberStream& random) {
    std::vector<double> numbers(static_cast<size_t>(num_elements(context.shape)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = value(i, random);
    return numbers;
  };
}

// Every element on its own, from its index and the operand.
template <typename F>
Fill by_operand(F value) {
  return [value](const FillContext& context, NumberStream&) {
    std::vector<double> numbers(static_cast<size_t>(num_elements(context.shape)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = value(i, context);
    return numbers;
  };
}

Fill scaled_normal(double scale) {
  return each([scale](size_t, NumberStream& r) { return scale * r.normal(); });
}

// Every row along the last dimension at once.
template <typename F>
Fill rows(F fill_row) {
  return [fill_row](const FillContext& context, NumberStream& random) {
    const Shape& shape = context.shape;
    std::vector<double> numbers(static_cast<size_t>(num_elements(shape)));
    const size_t n = shape.empty() ? 1 : static_cast<size_t>(shape.back());
    for (size_t begin = 0; n && begin < numbers.size(); begin += n)
      fill_row(std::span(numbers).subspan(begin, n), begin / n, context.operand, random);
    return numbers;
  };
}

void unit_row(std::span<double> row, size_t, size_t, NumberStream& random) {
  double norm = 0;
  for (double& x : row) {
    x = random.normal();
    norm += x * x;
  }
  for (double& x : row) x /= std::sqrt(norm) + 1e-300;
}

// Rows of all operands are multiples of one vector: parallel, and as a matrix of rank one.
void parallel_row(std::span<double> row, size_t index, size_t operand, NumberStream& random) {
  const double factor = static_cast<double>(random.below(7)) - 3;
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = (index == 0 ? 1 + static_cast<double>(operand) : factor) *
             (1.0 + 0.5 * static_cast<double>(i));
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
  return [outlier](const FillContext& context, NumberStream& random) {
    std::vector<double> numbers = scaled_normal(1)(context, random);
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
std::vector<double> slabs(const FillContext& context, double number, bool front,
                          NumberStream& random) {
  const Shape& shape = context.shape;
  std::vector<double> numbers = scaled_normal(1)(context, random);
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    if (shape[d] < 2) continue;
    for (size_t i = 0; i < numbers.size(); ++i)
      if (static_cast<int64_t>(i) / stride % shape[d] == (front ? 0 : shape[d] - 1))
        numbers[i] = number;
  }
  return numbers;
}

std::vector<double> zero_slabs(const FillContext& context, NumberStream& random) {
  return slabs(context, 0, random.chance(0.5), random);
}

// At the end, where a shard may be smaller than the others and hold nothing else.
std::vector<double> nan_slabs(const FillContext& context, NumberStream& random) {
  return slabs(context, std::numeric_limits<double>::quiet_NaN(), false, random);
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
  switch (desc.dtype == DType::Bool ? Domain::Bool : desc.domain) {
    case Domain::NonZero:
      return x == 0 ? 1 : x;
    case Domain::Positive:
      return x == 0 ? 0.5 : std::fabs(x);
    case Domain::Bool:
      if (std::fabs(x) < 1) return x > 0 ? 1 : 0;  // small numbers are not all false
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

double increasing(size_t i, const FillContext& context) {
  const size_t k = context.operand;
  if (!context.limit) return 1.0 + static_cast<double>(i) + 7.0 * static_cast<double>(k);
  // Beyond the first operands numbers come twice, thrice: a shift alone would meet itself again.
  return static_cast<double>(i / (1 + k / static_cast<size_t>(context.limit)) + 1 + k);
}

double decreasing(size_t i, const FillContext& context) {
  const auto k = static_cast<double>(context.operand);
  if (!context.limit) return 40.0 - 1.5 * static_cast<double>(i) - 7.25 * k;
  const size_t times = 1 + context.operand / static_cast<size_t>(context.limit);
  return 40.0 - 1.5 * static_cast<double>(i / times) - k;
}

namespace {

std::vector<double> one_hot(const FillContext& context, NumberStream& random) {
  std::vector<double> numbers(static_cast<size_t>(num_elements(context.shape)), 0.0);
  for (size_t i = 1; i < numbers.size(); i += 3)
    if (random.chance(0.7)) numbers[i] = context.limit ? 1 : 5;
  return numbers;
}

std::vector<double> negative(const FillContext& context, NumberStream& random) {
  std::vector<double> numbers = by_operand(increasing)(context, random);
  for (double& x : numbers) x = -x - random.uniform();
  return numbers;
}

}  // namespace

std::vector<InputGenerator> default_generators() {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto one = [](double x) { return each([x](size_t, NumberStream&) { return x; }); };
  auto whole = [](int64_t count, double first) {
    return each(
        [=](size_t, NumberStream& r) { return static_cast<double>(r.below(count)) + first; });
  };
  // What is said at the end: floats_only, one_place, integer_ends, equal_operands.
  std::vector<InputGenerator> all = {
      {"ordered", "Whole numbers that grow by one, from another start for each operand.",
       by_operand(increasing)},
      {"normal", "Random numbers around zero, of size one.", scaled_normal(1)},
      {"mixed_integers", "Random whole numbers from -9 to 9.", whole(19, -9)},
      {"ties", "Only -1, 0 and 1, so that most numbers are equal to others.", whole(3, -1)},
      {"negative", "Negative numbers that fall with the position.", negative},
      {"tiny", "Random numbers of size 0.001.", scaled_normal(1e-3), true},
      {"small", "Random numbers of size 0.1.", scaled_normal(1e-1), true},
      {"large", "Random numbers of size 100.", scaled_normal(1e2)},
      {"huge", "Random numbers of size 100000.", scaled_normal(1e5)},
      {"zeros", "Zeros in all operands at once.", one(0), false, false, false, true},
      {"ones", "Ones in all operands at once.", one(1), false, false, false, true},
      {"one_hot", "Fives at some places, and zeros; of positions, ones.", one_hot},
      {"unit_vectors", "Rows of length one.", rows(unit_row), true},
      {"parallel", "Rows of all operands are multiples of one vector.", rows(parallel_row)},
      {"descending", "Numbers that fall by 1.5, from another start for each operand.",
       by_operand(decreasing)},
      {"nonfinite", "NaN and both infinities among random numbers.", each(nonfinite), true},
      {"nan_ties", "NaN among -1, 0 and 1.", each([](size_t, NumberStream& r) {
         return r.chance(0.3) ? kNaN : static_cast<double>(r.below(3)) - 1;
       }),
       true},
      {"signed_zeros", "Zeros of both signs; of integers, the ends of their range.",
       each(signed_zero), false, false, true},
      {"one_nan", "One NaN among random numbers.", one_place([](NumberStream&) { return kNaN; }),
       true, true},
      {"one_infinity", "One infinity among random numbers.",
       one_place([](NumberStream& r) { return (r.chance(0.5) ? 1 : -1) * kInfinity; }), true, true},
      {"one_spike", "One number that dwarfs the others.", one_place(spike), true, true},
      {"any_scale", "Sizes from 1e-15 to 1e15, of both signs.", each(any_scale), true, true},
      {"zero_slabs", "Zeros at one end of every dimension.", zero_slabs, false, true},
      {"nan_slabs", "NaN at the last position of every dimension.", nan_slabs, true, true},
      {"specks", "Numbers that are next to nothing among random ones.", each(speck), true},
      {"constants", "One number everywhere, another one for each operand.",
       by_operand([](size_t, const FillContext& context) {
         constexpr double kNumbers[] = {2, -3, 5, 7, -11, 13};
         return context.limit ? static_cast<double>(1 + context.operand)
                              : kNumbers[context.operand % std::size(kNumbers)];
       })},
  };
  for (int i = 1; i <= kNumPatchworks; ++i)
    all.push_back({fmt::format("patchwork_{}", i),
                   "Two kinds of numbers, one of them in a corner alone.",
                   {},
                   false,
                   true,
                   false,
                   false,
                   i});
  return all;
}

InputGenerator generator_of_values(std::string name, std::vector<double> values) {
  const bool whole = std::all_of(values.begin(), values.end(),
                                 [](double x) { return std::isfinite(x) && x == std::round(x); });
  std::string description = "Drawn from these numbers:";
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(values.size(), kShown); ++i)
    description += fmt::format("{}{}", i ? ", " : " ", values[i]);
  description += values.size() > kShown ? ", ..." : ".";
  auto pick = [values = std::move(values)](size_t, NumberStream& random) {
    return values[static_cast<size_t>(random.below(static_cast<int64_t>(values.size())))];
  };
  return {std::move(name), std::move(description), each(pick), !whole};
}

namespace {

// Numbers of the operand's shape, moved into its domain and range.
Array adapt(std::vector<double> numbers, const TensorDesc& desc, bool one_place) {
  if (desc.domain == Domain::Definite) {
    // A number that dwarfs the others leaves a matrix that is definite on paper only.
    if (one_place)
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

}  // namespace

Array make_input(const InputGenerator& generator, const TensorDesc& desc, NumberStream& random,
                 size_t operand) {
  if (generator.patchwork) return patchwork_input(generator.patchwork, desc, random, operand);
  if (generator.integer_ends && is_integer(desc.dtype) && desc.domain == Domain::Any)
    return integer_ends(desc, random);
  FillContext context{operand, desc.shape, desc.dtype};
  context.limit = desc.domain == Domain::Bool || desc.dtype == DType::Bool ? 2
                  : desc.domain == Domain::Index                           ? desc.limit
                                                                           : 0;
  if (generator.make) {
    const auto made = generator.make(context, random);
    if (made && desc.domain == Domain::Any) return *made;
    if (made) return adapt(to_doubles(*made), desc, false);
  }
  if (is_complex(desc.dtype)) context.shape.push_back(2);
  return adapt(generator.make ? scaled_normal(1)(context, random) : generator.fill(context, random),
               desc, generator.one_place);
}

}  // namespace cleave
