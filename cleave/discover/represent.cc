#include "cleave/discover/represent.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/discover/split_integers.h"
#include "cleave/kernels/combine.h"

namespace cleave {
namespace {

using Numbers = std::vector<double>;

Array shard_of(const Array& value, int dim, int w, int index) {
  const Chunk chunk = chunk_of(value.shape()[dim], w, index);
  Shape start(value.rank(), 0), size = value.shape();
  start[dim] = chunk.offset;
  size[dim] = chunk.size;
  return value.slice(start, size).contiguous();
}

// A magnitude over many scales, now and then a small integer; whole if the dtype is an integer.
double gap(double x, bool whole, NumberStream& random) {
  if (random.chance(0.3))
    return static_cast<double>(1 + random.below(2));  // meets other small integers
  const double scale = std::max(std::fabs(x), 0.5);
  const double size = scale * std::exp2((random.uniform() * 4 - 2) * 3.321928094887362);
  return whole ? std::round(size) + static_cast<double>(random.below(2)) : size;
}

// Parts whose sum is x.
void split_sum(double x, std::span<double> parts, Decomposition how, bool whole,
               NumberStream& random) {
  const auto w = static_cast<int64_t>(parts.size());
  const size_t holder = static_cast<size_t>(random.below(w));
  std::fill(parts.begin(), parts.end(), 0.0);
  if (!std::isfinite(x)) {
    // Whatever the other parts are, the sum stays what it is; and infinities that cancel are NaN.
    for (double& part : parts)
      part = how == Decomposition::Gaps || how == Decomposition::Ties ? random.normal() : 0;
    parts[holder] = x;
    if (std::isnan(x) && how == Decomposition::Opposite) {
      parts[holder] = std::numeric_limits<double>::infinity();
      parts[holder ? 0 : 1] = -parts[holder];
    }
    return;
  }
  double rest = x;
  auto give = [&](size_t i, double part) {
    parts[i] = part;
    rest -= part;
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == holder) continue;
    switch (how) {
      case Decomposition::Holder:
        break;
      case Decomposition::Gaps:
        give(i, (random.chance(0.5) ? 1 : -1) * gap(x, whole, random));
        break;
      case Decomposition::Ties:
        give(i, random.chance(0.5) ? x : 0);
        break;
      case Decomposition::Equal:
        give(i, whole ? std::trunc(x / static_cast<double>(w)) : x / static_cast<double>(w));
        break;
      case Decomposition::Opposite:
        give(i, (i % 2 ? -1 : 1) * (whole ? 16 : 7.25 * std::max(std::fabs(x), 1.0)));
        break;
    }
  }
  parts[holder] = rest;
}

// Parts whose maximum (sign = 1) or minimum (sign = -1) is x.
void split_extreme(double x, double sign, std::span<double> parts, Decomposition how, bool whole,
                   double lowest, NumberStream& random) {
  const size_t holder = static_cast<size_t>(random.below(static_cast<int64_t>(parts.size())));
  for (size_t i = 0; i < parts.size(); ++i) {
    double below = 0;
    switch (how) {
      case Decomposition::Holder:
        // The identity, as an empty shard has it, or far less than x.
        below = !whole && random.chance(0.2)
                    ? std::numeric_limits<double>::infinity()
                    : gap(100 * std::max(std::fabs(x), 1.0), whole, random);
        break;
      case Decomposition::Gaps:
        below = gap(x, whole, random);
        break;
      case Decomposition::Ties:
        below = random.chance(0.5) ? 0 : gap(x, whole, random);
        break;
      case Decomposition::Equal:
        break;
      case Decomposition::Opposite:
        below = std::isfinite(x) ? 2 * std::fabs(x) + (whole ? 1 : 0.25) : 1;
        break;
    }
    parts[i] = std::isnan(x) ? random.normal() : x - sign * below;
    if (sign > 0) parts[i] = std::max(parts[i], lowest);
    if (!std::isfinite(x) && !std::isnan(x) && x * sign < 0) parts[i] = x;
    if (!std::isfinite(x) && !std::isnan(x) && x * sign > 0)
      parts[i] = whole ? 0 : 3 * random.normal();
  }
  parts[holder] = x;
}

// Parts whose product is x: powers of two, so that nothing is rounded, and signs in pairs.
void split_prod(double x, std::span<double> parts, Decomposition how, NumberStream& random) {
  std::fill(parts.begin(), parts.end(), 1.0);
  const size_t holder = static_cast<size_t>(random.below(static_cast<int64_t>(parts.size())));
  if (!std::isfinite(x)) {
    if (how == Decomposition::Gaps)
      for (double& part : parts) part = std::ldexp(1.0, static_cast<int>(random.below(9)) - 4);
    parts[holder] = x;
    // An infinity times zero.
    if (std::isnan(x) && how == Decomposition::Opposite) {
      parts[holder] = std::numeric_limits<double>::infinity();
      parts[holder ? 0 : 1] = 0;
    }
    return;
  }
  double rest = x;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == holder) continue;
    double factor = 1;
    if (how != Decomposition::Holder)
      factor = std::ldexp(1.0, static_cast<int>(random.below(9)) - 4);
    if (how != Decomposition::Holder && how != Decomposition::Equal && random.chance(0.5))
      factor = -factor;
    parts[i] = factor;
    rest /= factor;
  }
  parts[holder] = rest;
}

double lowest_of(DType dtype) {
  if (is_unsigned_integer(dtype) || dtype == DType::Bool) return 0;
  if (has_fractions(dtype)) return -std::numeric_limits<double>::infinity();
  return -std::ldexp(1.0, bit_width(dtype) - 1);
}

double highest_of(DType dtype) {
  if (dtype == DType::Bool) return 1;
  if (has_fractions(dtype)) return std::numeric_limits<double>::infinity();
  return std::ldexp(1.0, bit_width(dtype) - (is_unsigned_integer(dtype) ? 0 : 1)) - 1;
}

// Averages of whole numbers are computed in doubles, which hold those below 2^53.
bool fits(const Numbers& parts, DType dtype) {
  const double exact = has_fractions(dtype) ? highest_of(dtype) : 0x1p53;
  const double low = std::max(lowest_of(dtype), -exact);
  const double high = std::min(highest_of(dtype), exact);
  return std::all_of(parts.begin(), parts.end(),
                     [&](double x) { return std::isnan(x) || (x >= low && x <= high); });
}

double combine(double a, double b, ReduceOp op) {
  switch (op) {
    case ReduceOp::Max:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case ReduceOp::Min:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    case ReduceOp::Prod:
      return a * b;
    case ReduceOp::And:
      return a != 0 && b != 0;
    case ReduceOp::Or:
      return a != 0 || b != 0;
    default:
      return a + b;
  }
}

// How much a number says that is not finite on one side: most if the devices turn a finite value
// into NaN, then into an infinity, then if they have a finite number for NaN.
int weight(const MatchResult& m) {
  if (m.match != Match::NonFinite) return 0;
  if (std::isfinite(m.expected)) return std::isnan(m.actual) ? 4 : 3;
  return std::isfinite(m.actual) && std::isnan(m.expected) ? 2 : 1;
}

void keep_heavier(MatchResult& kept, const MatchResult& found) {
  if (weight(found) > weight(kept)) kept = found;
}

// Compares row-major numbers; `scale` is the magnitude that rounding is relative to.
MatchResult compare(std::span<const double> expected, std::span<const double> actual,
                    const Tolerance& tolerance, double scale) {
  MatchResult result;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i], a = actual[i];
    if (e == a || (std::isnan(e) && std::isnan(a))) continue;
    if (!std::isfinite(e) || !std::isfinite(a)) {
      keep_heavier(result, {Match::NonFinite, static_cast<int64_t>(i), e, a});
      continue;
    }
    if (std::fabs(e - a) <=
        tolerance.slack + tolerance.relative * std::max({std::fabs(e), std::fabs(a), scale}))
      continue;
    return {Match::No, static_cast<int64_t>(i), e, a};
  }
  return result;
}

double largest_of(std::span<const double> numbers) {
  double largest = 0;
  for (double x : numbers)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  return largest;
}

// Doubles cannot tell all integers of 64 bits apart; their bytes can.
MatchResult compare_integers(const Array& expected, const Array& actual) {
  const Array e = expected.contiguous(), a = actual.contiguous();
  const size_t size = static_cast<size_t>(byte_size(e.dtype()));
  for (size_t i = 0; i < e.num_bytes(); i += size)
    if (std::memcmp(e.raw() + i, a.raw() + i, size) != 0) {
      const size_t at = i / size;
      return {Match::No, static_cast<int64_t>(at), to_doubles(e)[at], to_doubles(a)[at]};
    }
  return {};
}

// Integers wrap around, as a reduction over devices does.
Array combine_integers(const std::vector<Array>& devices, ReduceOp op) {
  std::vector<Array> packed;
  std::vector<const std::byte*> parts;
  for (const Array& device : devices) packed.push_back(device.contiguous());
  for (const Array& part : packed) parts.push_back(part.raw());
  Array total(devices[0].dtype(), devices[0].shape());
  combine_parts(op, total.dtype(), parts, total.raw(), 0, total.num_elements());
  return total;
}

}  // namespace

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::C128:
      return 1e-9;
    case DType::F32:
    case DType::C64:
      return 3e-5;
    case DType::F16:
      return 2e-2;
    case DType::BF16:
      return 1e-1;
    default:
      return 0;
  }
}

double magnitude(const Array& array) {
  if (array.dtype() == DType::F64 && array.is_contiguous())
    return largest_of(std::span(array.data<double>(), static_cast<size_t>(array.num_elements())));
  return largest_of(to_doubles(array));
}

std::string_view name(Decomposition decomposition) {
  constexpr std::array<std::string_view, kNumDecompositions> names = {"holder", "gaps", "ties",
                                                                      "equal", "opposite"};
  return names[static_cast<size_t>(decomposition)];
}

std::optional<std::vector<Array>> represent(const Array& value, const Placement& placement, int w,
                                            Decomposition how, NumberStream& random) {
  if (placement.is_replicate()) return std::vector<Array>(static_cast<size_t>(w), value);
  std::vector<Array> devices;
  if (placement.is_shard()) {
    for (int i = 0; i < w; ++i) devices.push_back(shard_of(value, placement.dim, w, i));
    return devices;
  }
  const DType dtype = value.dtype();
  const bool whole = !has_fractions(dtype);
  const ReduceOp op = placement.reduce;
  if (dtype == DType::Bool && (op == ReduceOp::Sum || op == ReduceOp::Avg || op == ReduceOp::Prod))
    return std::nullopt;
  if (whole && dtype != DType::Bool && op != ReduceOp::Avg)
    return split_integers(value, op, w, how, random);
  const Numbers numbers = to_doubles(value);
  // Doubles go into the arrays at once, others through a list that is rounded at the end.
  const bool direct = dtype == DType::F64;
  std::vector<Numbers> lists;
  std::vector<double*> parts;
  for (int i = 0; i < w; ++i) {
    if (direct) {
      parts.push_back(devices.emplace_back(dtype, value.shape()).data<double>());
    } else {
      lists.emplace_back(numbers.size());
    }
  }
  for (Numbers& list : lists) parts.push_back(list.data());
  Numbers split(static_cast<size_t>(w));
  for (size_t e = 0; e < numbers.size(); ++e) {
    switch (op) {
      case ReduceOp::Avg:
        split_sum(numbers[e] * w, split, how, whole, random);
        break;
      case ReduceOp::And:
      case ReduceOp::Or:
        split_extreme(numbers[e], op == ReduceOp::Or ? 1 : -1, split, how, whole, 0, random);
        break;
      case ReduceOp::Max:
        split_extreme(numbers[e], 1, split, how, whole, lowest_of(dtype), random);
        break;
      case ReduceOp::Min:
        split_extreme(numbers[e], -1, split, how, whole, 0, random);
        break;
      case ReduceOp::Prod:
        split_prod(numbers[e], split, how, random);
        break;
      case ReduceOp::Sum:
        split_sum(numbers[e], split, how, whole, random);
        break;
    }
    if (dtype == DType::Bool)
      for (double& x : split) x = std::clamp(x, 0.0, 1.0);
    for (size_t i = 0; i < split.size(); ++i) parts[i][e] = split[i];
  }
  for (const Numbers& list : lists) {
    if (!fits(list, dtype)) return std::nullopt;
    devices.push_back(from_doubles(dtype, value.shape(), list));
  }
  return devices;
}

namespace {

// Where an element of a shard is in the whole array, row-major; a complex number is two.
int64_t whole_index(int64_t index, const Array& value, int dim, const Chunk& chunk) {
  int64_t inner = is_complex(value.dtype()) ? 2 : 1;
  for (size_t d = static_cast<size_t>(dim) + 1; d < value.rank(); ++d) inner *= value.shape()[d];
  const int64_t outer = index / (inner * chunk.size), rest = index % (inner * chunk.size);
  return outer * inner * value.shape()[dim] + chunk.offset * inner + rest;
}

}  // namespace

TrueValue::TrueValue(Array value)
    : array(std::move(value)), numbers(to_doubles(array)), magnitude(largest_of(numbers)) {
  informative = magnitude > 0;
}

const Numbers& OutputMatcher::numbers(size_t device) {
  if (numbers_.empty())
    for (const Array& array : devices_) numbers_.push_back(to_doubles(array));
  return numbers_[device];
}

MatchResult OutputMatcher::match_partial(ReduceOp op, const Tolerance& tolerance) {
  const DType dtype = value_.array.dtype();
  for (const Array& device : devices_)
    if (device.shape() != value_.array.shape()) return {Match::Shape};
  if (dtype == DType::Bool && (op == ReduceOp::Sum || op == ReduceOp::Avg || op == ReduceOp::Prod))
    return {Match::Shape};
  if (dtype != DType::Bool && is_integer(dtype) && op != ReduceOp::Avg)
    return compare_integers(value_.array, combine_integers(devices_, op));
  Numbers total = numbers(0);
  double scale = largest_of(total);
  for (size_t i = 1; i < devices_.size(); ++i) {
    const Numbers& part = numbers(i);
    scale = std::max(scale, largest_of(part));
    for (size_t e = 0; e < total.size(); ++e) total[e] = combine(total[e], part[e], op);
  }
  if (op == ReduceOp::Avg)
    for (double& x : total) x /= static_cast<double>(devices_.size());
  // No sum, no rounding: beside i0(700) a wrong i0(2) would look like it.
  if (op == ReduceOp::Max || op == ReduceOp::Min) scale = 0;
  return compare(value_.numbers, total, tolerance, scale);
}

MatchResult OutputMatcher::match_shard(int dim, const Tolerance& tolerance) {
  const Array& value = value_.array;
  const int w = static_cast<int>(devices_.size());
  const bool local = !tolerance.slack_of_device.empty();
  for (int i = 0; i < w; ++i) {
    Shape shape = value.shape();
    shape[dim] = chunk_of(shape[dim], w, i).size;
    if (devices_[i].shape() != shape) return {Match::Shape};
  }
  MatchResult result;
  for (int i = 0; i < w; ++i) {
    const Array shard = shard_of(value, dim, w, i);
    MatchResult part;
    if (is_integer(value.dtype())) {
      part = compare_integers(shard, devices_[i]);
    } else {
      const Numbers expected = to_doubles(shard);
      Tolerance of_device{tolerance.relative, tolerance.slack};
      if (local) of_device.slack = tolerance.slack_of_device[static_cast<size_t>(i)];
      const double scale = !has_fractions(value.dtype()) ? 0
                           : local                       ? largest_of(expected)
                                                         : value_.magnitude;
      part = compare(expected, numbers(static_cast<size_t>(i)), of_device, scale);
    }
    if (part.match != Match::Yes)
      part.element = whole_index(part.element, value, dim, chunk_of(value.shape()[dim], w, i));
    if (part.match == Match::No) return part;
    keep_heavier(result, part);
  }
  return result;
}

MatchResult OutputMatcher::match(const Placement& placement, const Tolerance& tolerance) {
  for (const Array& device : devices_)
    if (device.dtype() != value_.array.dtype()) return {Match::Shape};
  if (placement.is_partial()) return match_partial(placement.reduce, tolerance);
  if (placement.is_shard()) return match_shard(placement.dim, tolerance);
  const double scale = has_fractions(value_.array.dtype()) ? value_.magnitude : 0;
  MatchResult result;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].shape() != value_.array.shape()) return {Match::Shape};
    const MatchResult part = is_integer(value_.array.dtype())
                                 ? compare_integers(value_.array, devices_[i])
                                 : compare(value_.numbers, numbers(i), tolerance, scale);
    if (part.match == Match::No) return part;
    keep_heavier(result, part);
  }
  return result;
}

MatchResult represents(const std::vector<Array>& devices, const Array& value,
                       const Placement& placement, const Tolerance& tolerance) {
  const TrueValue truth(value);
  return OutputMatcher(devices, truth).match(placement, tolerance);
}

}  // namespace cleave
