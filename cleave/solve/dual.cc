#include "cleave/solve/dual.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cleave::solver {
namespace {

constexpr int kWarmUp = 20;  // sweeps before the prices move

constexpr double kKeep = 0.4;  // of the last direction
// Steps are long and short by turns, from cycle to cycle: some problems want one, some the other.
constexpr double kLongStep = 0.07;
constexpr double kShortStep = 0.025;
// Few times bind in the end: a price moves in proportion to itself plus this much of the mean.
constexpr double kEvenShare = 0.2;
constexpr int kWindow = 30;
// Levels are shares of the bound, or of so much of the room above it if that is far more: without
// prices, a bound may be next to nothing.
constexpr double kOfRoom = 0.2;
constexpr float kFade = 0.93f;  // of the shares, from step to step

}  // namespace

template <class Real>
Dual<Real>::Dual(const Model& model)
    : model_(model),
      messages_(model),
      prices_(model.times, 0),
      swept_prices_(model.times, 0),
      best_prices_(model.times, 0),
      direction_(model.times, 0),
      prefix_(model.times + 1, 0),
      cost_(model.strategies(), 0),
      share_(model.strategies(), 0) {}

template <class Real>
double Dual<Real>::outside(const std::vector<double>& prices) const {
  double total = model_.constant;
  for (int t = 0; t < model_.times; ++t) {
    total += prices[t] * static_cast<double>(model_.base[t] - model_.limit);
  }
  return total;
}

// Usage over time when each node spreads over its strategies by exp(-belief / temperature).
template <class Real>
void Dual<Real>::expected_usage(double temperature) {
  usage_.assign(model_.times + 1, 0);
  const Real* belief = messages_.beliefs();
  std::vector<double> weight;
  for (int i = 0; i < model_.n; ++i) {
    const int first = model_.first_memory[i], last = model_.first_memory[i + 1];
    const Real* row = belief + model_.offset[i];
    float* share = &share_[model_.offset[i]];
    const int k = model_.k[i];
    weight.assign(k, 0);
    double total = 0;
    for (int s = 0; s < k; ++s) {
      const double z = static_cast<double>(row[s]) / temperature;
      if (z < 20) total += weight[s] = std::exp(-z);
    }
    for (int s = 0; s < k; ++s) {
      weight[s] /= total;
      share[s] = kFade * share[s] + (1 - kFade) * static_cast<float>(weight[s]);
    }
    for (int m = first; m < last; ++m) {
      const Model::Memory& memory = model_.memory[m];
      double u = 0;
      for (int s = 0; s < k; ++s) u += weight[s] * static_cast<double>(model_.usage[memory.at + s]);
      usage_[memory.begin] += u;
      usage_[memory.end] -= u;
    }
  }
  std::partial_sum(usage_.begin(), usage_.end(), usage_.begin());
}

template <class Real>
double Dual<Real>::sweep() {
  std::partial_sum(prices_.begin(), prices_.end(), prefix_.begin() + 1);
  if (model_.times > 0 || work_ == 0) model_.price(prefix_, cost_.data());
  swept_prices_ = prices_;
  work_ += messages_.sweep_work() + 6.0 * static_cast<double>(model_.strategies());
  return messages_.sweep(cost_.data()) + outside(prices_);
}

template <class Real>
void Dual<Real>::polish(int sweeps) {
  prices_ = best_prices_;
  for (int q = 0; q < sweeps; ++q) best_ = std::max(best_, sweep());
}

template <class Real>
void Dual<Real>::set_prices(const std::vector<double>& prices) {
  prices_ = best_prices_ = prices;
  first_lift_ = 0.005;
}

template <class Real>
void Dual<Real>::iterate(double target) {
  const double bound = sweep();
  ++iterations_;
  if (bound > best_) {
    best_ = bound;
    best_prices_ = prices_;
  }
  if (iterations_ < kWarmUp) return;
  room_ = std::max(target - best_, 1e-6 * std::abs(best_));
  if (lift_ < 0) {
    lift_ = first_lift_ * scale();
    marked_ = best_;
  }
  lift_ = std::min(lift_, room_);
  const double gap = std::min(best_ + lift_ - bound, 2 * lift_);
  if (model_.times > 0 || keeps_shares_) expected_usage(gap / model_.n);
  move_prices(gap);
  if (++window_ >= kWindow) end_window();
}

template <class Real>
double Dual<Real>::scale() const {
  return std::max(std::abs(best_), kOfRoom * room_);
}

// A Polyak step in a metric that follows the prices: p += step * (p + mean share) * direction. The
// usages of neighbouring times are nearly the same, and with equal weights a peak's price would
// first spread over all of them and then have to gather.
template <class Real>
void Dual<Real>::move_prices(double gap) {
  const double sum = std::accumulate(prices_.begin(), prices_.end(), 0.0);
  const double even = kEvenShare * sum / std::max(1, model_.times);
  const auto weight = [&](int t) { return sum > 0 ? prices_[t] + even : 1.0; };
  double norm = 0;
  for (int t = 0; t < model_.times; ++t) {
    double excess = usage_[t] + static_cast<double>(model_.base[t] - model_.limit);
    if (excess < 0 && prices_[t] <= 0) excess = 0;
    direction_[t] = kKeep * direction_[t] + (1 - kKeep) * excess;
    const double d = prices_[t] <= 0 ? std::max(0.0, direction_[t]) : direction_[t];
    norm += weight(t) * d * d;
  }
  const double step = norm > 0 ? (long_steps_ ? kLongStep : kShortStep) * gap / norm : 0;
  for (int t = 0; t < model_.times; ++t) {
    prices_[t] = std::max(0.0, prices_[t] + step * weight(t) * direction_[t]);
  }
}

// Little gained: the level comes down, and the prices go back to the best.
template <class Real>
void Dual<Real>::end_window() {
  const double gained = best_ - marked_;
  // Without prices there is nothing but to sweep on: not for long if the gap hardly shrinks.
  const double little = std::max(1e-7 * std::abs(best_), model_.times == 0 ? 0.02 * room_ : 0.0);
  stalled_ = gained > little ? 0 : stalled_ + 1;
  if (gained < 0.05 * lift_) {
    lift_ *= 0.8;
    prices_ = best_prices_;
    std::fill(direction_.begin(), direction_.end(), 0.0);
  } else if (gained > 0.5 * lift_) {
    lift_ *= 1.3;
  }
  marked_ = best_;
  window_ = 0;
  if (lift_ > std::max(2e-6 * std::abs(best_), 1e-3) && stalled_ < 40) return;
  // The level has come down to the bound: once more from above, unless that helped little last
  // time.
  exhausted_ = best_ - cycle_ < std::min(1e-4 * std::abs(best_), 0.05 * room_);
  cycle_ = best_;
  long_steps_ = !long_steps_;
  lift_ = 0.02 * scale();
  stalled_ = 0;
}

template <class Real>
double Dual<Real>::certify(AlignedVector<double>* with) const {
  std::vector<double> prefix(model_.times + 1, 0);
  std::partial_sum(swept_prices_.begin(), swept_prices_.end(), prefix.begin() + 1);
  AlignedVector<double> cost(model_.strategies()), bounds;
  model_.price(prefix, cost.data());
  Messages<double> messages(model_);
  messages.copy_from(messages_);
  const double rest = outside(swept_prices_);
  double bound = messages.certify(cost.data(), bounds) + rest;
  const double terms = static_cast<double>(model_.arcs.size()) + model_.n + model_.times + 10;
  const double error = 4e-16 * terms * (std::abs(bound) + std::abs(rest));
  bound -= error;
  if (with) {
    for (double& b : bounds) b += rest - error;
    with->swap(bounds);
  }
  return bound;
}

template class Dual<float>;
template class Dual<double>;

}  // namespace cleave::solver
