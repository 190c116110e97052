#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cleave/runtime/tensor.h"

// How a number changes over the steps of a training: functions of the step, a Tensor, so that they
// are compiled into the step and one program serves all of them.
namespace cleave::train {

// Takes the step, a number of f32 that begins at 0, and gives a number of f32.
using Schedule = std::function<Tensor(const Tensor& step)>;

Schedule constant(double value);
// From `first` to `last` in `steps` steps, then `last`.
Schedule linear(double first, double last, int64_t steps);
// first * ((1 - a) (1 + cos(pi step / steps)) / 2 + a), a = last / first; then `last`.
Schedule cosine(double first, int64_t steps, double last = 0);
// Linear from `first` to `peak` in `warmup` steps, then a cosine to `last`, at `steps` in all.
Schedule warmup_cosine(double peak, int64_t warmup, int64_t steps, double last = 0,
                       double first = 0);
// first * factor^((step - begin) / every) from `begin` on. `staircase`: whole powers.
struct ExponentialOptions {
  int64_t begin = 0;
  bool staircase = false;
  double last = 0;  // not beyond this one; 0: no limit
};
Schedule exponential(double first, double factor, int64_t every, ExponentialOptions options = {});
// `first`, multiplied by the factor of every boundary that the step has reached.
//   piecewise(0.1, {{30, 0.1}, {60, 0.1}})     0.1, from step 30 on 0.01, from step 60 on 0.001
Schedule piecewise(double first, std::vector<std::pair<int64_t, double>> factors);
// (first - last) * (1 - (step - begin) / steps)^power + last, constant before and after.
Schedule polynomial(double first, double last, double power, int64_t steps, int64_t begin = 0);
// peak * step / warmup up to `warmup`, then peak * sqrt(warmup / step).
Schedule inverse_sqrt(double peak, int64_t warmup);
// One schedule after another; each begins at 0 at its boundary. One boundary less than schedules.
Schedule join(std::vector<Schedule> schedules, std::vector<int64_t> boundaries);

// What an optimizer takes as a rate: a number, a schedule, or a Tensor (a number of f32 that the
// program passes to its step).
//
//   adamw(1e-3)     adamw(warmup_cosine(1e-3, 100, 1000))     adamw(rate)
class Rate {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> Rate(T value) : number_(static_cast<double>(value)) {}
  Rate(Tensor value) : tensor_(std::move(value)) {}
  template <std::invocable<const Tensor&> F>
  requires(!std::same_as<std::decay_t<F>, Rate>) Rate(F schedule)
      : schedule_(std::move(schedule)) {}

  bool is_number() const { return !schedule_ && !tensor_.valid(); }
  bool is_schedule() const { return schedule_ != nullptr; }
  double number() const { return number_; }
  // `step`: of f32; used by schedules only.
  Tensor at(const Tensor& step) const;
  // x times the rate times the factor.
  Tensor times(const Tensor& x, const Tensor& step, double factor = 1) const;

 private:
  double number_ = 0;
  Schedule schedule_;
  Tensor tensor_;
};

}  // namespace cleave::train
