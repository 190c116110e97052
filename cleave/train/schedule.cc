#include "cleave/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/promotion.h"

namespace cleave::train {
namespace {

void check_steps(const char* schedule, const char* what, int64_t steps) {
  if (steps <= 0) throw_user("{}: {} is {}; it must be above 0", schedule, what, steps);
}

}  // namespace

Schedule constant(double value) {
  return [value](const Tensor& step) { return full_like(step, value); };
}

Schedule linear(double first, double last, int64_t steps) {
  return polynomial(first, last, 1, steps);
}

Schedule cosine(double first, int64_t steps, double last) {
  check_steps("cosine", "the number of steps", steps);
  const double floor = first == 0 ? 0 : last / first;
  return [=](const Tensor& step) {
    const auto all = static_cast<double>(steps);
    const Tensor wave = (cos(minimum(step, all) * std::numbers::pi / all) + 1.0) * 0.5;
    return (wave * (1 - floor) + floor) * first;
  };
}

Schedule warmup_cosine(double peak, int64_t warmup, int64_t steps, double last, double first) {
  if (warmup == 0) return cosine(peak, steps, last);
  if (warmup < 0 || warmup >= steps)
    throw_user("warmup_cosine: {} steps of warm-up in a schedule of {}; they must be fewer", warmup,
               steps);
  return join({linear(first, peak, warmup), cosine(peak, steps - warmup, last)}, {warmup});
}

Schedule exponential(double first, double factor, int64_t every, ExponentialOptions options) {
  check_steps("exponential", "the number of steps for one factor", every);
  if (!(factor > 0)) throw_user("exponential: the factor is {}; it must be above 0", factor);
  return [=](const Tensor& step) {
    const Tensor passed = step - static_cast<double>(options.begin);
    Tensor power = passed / static_cast<double>(every);
    if (options.staircase) power = floor(power);
    Tensor value = where(less_equal(passed, 0.0), first, pow(factor, power) * first);
    if (options.last != 0)
      value = factor < 1 ? maximum(value, options.last) : minimum(value, options.last);
    return value;
  };
}

Schedule piecewise(double first, std::vector<std::pair<int64_t, double>> factors) {
  std::sort(factors.begin(), factors.end());
  return [first, factors = std::move(factors)](const Tensor& step) {
    Tensor value = full_like(step, first);
    for (const auto& [boundary, factor] : factors)
      value = where(less(step, static_cast<double>(boundary)), value, value * factor);
    return value;
  };
}

Schedule polynomial(double first, double last, double power, int64_t steps, int64_t begin) {
  check_steps("polynomial", "the number of steps", steps);
  return [=](const Tensor& step) {
    const auto all = static_cast<double>(steps);
    const Tensor left = 1.0 - clip(step - static_cast<double>(begin), 0.0, all) / all;
    return (power == 1 ? left : pow(left, power)) * (first - last) + last;
  };
}

Schedule inverse_sqrt(double peak, int64_t warmup) {
  check_steps("inverse_sqrt", "the number of steps of warm-up", warmup);
  return [=](const Tensor& step) {
    const auto first = static_cast<double>(warmup);
    return where(less(step, first), step * (peak / first),
                 rsqrt(maximum(step, first)) * (peak * std::sqrt(first)));
  };
}

Schedule join(std::vector<Schedule> schedules, std::vector<int64_t> boundaries) {
  if (schedules.size() != boundaries.size() + 1)
    throw_user("join: {} schedules have {} boundaries between them, got {}", schedules.size(),
               schedules.empty() ? 0 : schedules.size() - 1, boundaries.size());
  return [=](const Tensor& step) {
    Tensor value = schedules[0](step);
    for (size_t i = 0; i < boundaries.size(); ++i) {
      const auto boundary = static_cast<double>(boundaries[i]);
      value = where(less(step, boundary), value, schedules[i + 1](step - boundary));
    }
    return value;
  };
}

Tensor Rate::at(const Tensor& step) const {
  if (schedule_) {
    Tensor value = schedule_(step);
    if (value.rank() != 0)
      throw_user("a schedule gives a number, got tensor<{}>", to_string(value.shape()));
    return value;
  }
  if (!tensor_.valid()) return full_like(step, number_);
  if (tensor_.rank() != 0)
    throw_user("a rate is a number, got tensor<{}>", to_string(tensor_.shape()));
  return tensor_;
}

Tensor Rate::times(const Tensor& x, const Tensor& step, double factor) const {
  if (is_number()) return x * (number_ * factor);
  return x * cast(at(step) * factor, x.dtype());
}

}  // namespace cleave::train
