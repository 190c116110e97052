#include "cleave/solve/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cleave::solver {
namespace {

constexpr double kFade = 0.998;  // of the gains, per step
constexpr int kFusePasses = 3;
constexpr double kMostWidth = 18;
constexpr double kSlack = 0.02;  // a repair may cost that much before it is given up

}  // namespace

template <class Real>
Search<Real>::Search(const Model& model, std::uint64_t seed)
    : model_(model),
      random_(seed),
      state_(model),
      elimination_(model),
      in_region_(model.n, 0),
      prefix_(model.times + 1, 0),
      cost_(model.strategies(), static_cast<Real>(kBig)) {
  add_kinds();
}

template <class Real>
void Search<Real>::add_kinds() {
  for (int shape = 1; shape <= 3; ++shape) {
    for (int size = 6; size < model_.n; size *= 2) {
      kinds_.push_back({shape, size, 0, 500.0 * size, 0});
    }
  }
  kinds_.push_back({0, model_.n, 0, 500.0 * model_.n, 0});
  for (int domain : {2, 4}) {
    for (int shape = 1; shape <= 2; ++shape) {
      for (int size = 96; size < model_.n; size *= 4) {
        kinds_.push_back({shape, size, domain, 500.0 * size, 0});
      }
    }
    kinds_.push_back({0, model_.n, domain, 500.0 * model_.n, 0});
  }
}

// Three shares of equal size: one gives all kinds the same work, one follows the gains, one gives
// all kinds the same number of steps, so that large regions get most of its work.
template <class Real>
int Search<Real>::pick_kind() {
  const auto count = static_cast<double>(kinds_.size());
  double all = 0;
  for (const Kind& kind : kinds_) all += kind.work;
  const auto weight = [&](const Kind& kind) {
    const double share = gained_ > 0 ? kind.gain / gained_ : 0;
    return (1 / count + share) / kind.work + 1 / all;
  };
  double total = 0;
  for (const Kind& kind : kinds_) total += weight(kind);
  double point = random_.unit() * total;
  for (std::size_t q = 0; q + 1 < kinds_.size(); ++q) {
    point -= weight(kinds_[q]);
    if (point < 0) return static_cast<int>(q);
  }
  return static_cast<int>(kinds_.size()) - 1;
}

template <class Real>
bool Search<Real>::complete(const Real* cost, std::vector<int>& x, double width) {
  std::vector<int> all(model_.n);
  std::iota(all.begin(), all.end(), 0);
  elimination_.run(all, cost, x, width, 2, random_);
  State& state = state_;
  state.assign(x);
  started_ = false;
  if (!state.repair(kBig, random_)) return false;
  state.descend(true, random_);
  state.refresh();
  x = state.x();
  if (state.cost() >= kBig / 4 || !state.fits()) return false;
  best_.offer(x, state.cost());
  return true;
}

template <class Real>
void Search<Real>::start(const std::vector<int>& x) {
  state_.assign(x);
  started_ = true;
  best_.offer(x, state_.cost());
}

template <class Real>
bool Search<Real>::start_beside(const std::vector<int>& x, const std::vector<double>& prices) {
  state_.assign(x);
  pick_region({1 + random_.below(2), std::max(1, model_.n / 4), 0, 0, 0});
  price_region(prices);
  const double noise = std::exp2(random_.below(4)) * std::abs(state_.cost()) / model_.n;
  for (int i : region_) {
    Real* row = &cost_[model_.offset[i]];
    for (int s = 0; s < model_.k[i]; ++s) row[s] += static_cast<Real>(noise * random_.unit());
  }
  proposal_ = x;
  elimination_.run(region_, cost_.data(), proposal_, 12, 3, random_);
  for (int i : region_) state_.move(i, proposal_[i]);
  if (!state_.repair(kBig, random_)) return false;
  state_.descend(false, random_);
  if (state_.cost() >= kBig / 4 || !state_.fits()) return false;
  state_.refresh();
  started_ = true;
  best_ = {state_.x(), state_.cost()};
  return true;
}

template <class Real>
void Search<Real>::grow_from(int seed, int size) {
  const std::size_t first = region_.size();
  if (in_region_[seed]) return;
  region_.push_back(seed);
  in_region_[seed] = 1;
  for (std::size_t head = first; head < region_.size(); ++head) {
    const int i = region_[head];
    const int begin = model_.first_arc[i], degree = model_.first_arc[i + 1] - begin;
    if (degree == 0) continue;
    const int skip = random_.below(degree);
    const int most = head == first ? size : 30;
    for (int q = 0; q < std::min(degree, most); ++q) {
      if (static_cast<int>(region_.size() - first) >= size) return;
      const int to = model_.arcs[begin + (skip + q) % degree].to;
      if (in_region_[to]) continue;
      in_region_[to] = 1;
      region_.push_back(to);
    }
  }
}

template <class Real>
void Search<Real>::pick_region(const Kind& kind) {
  const int n = model_.n;
  region_.clear();
  const int size = std::min(n, kind.size + random_.below(kind.size));
  if (kind.shape == 0 || size == n) {
    region_.resize(n);
    std::iota(region_.begin(), region_.end(), 0);
    return;
  }
  if (kind.shape == 1) {
    const int first = random_.below(n - size + 1);
    region_.resize(size);
    std::iota(region_.begin(), region_.end(), first);
    return;
  }
  grow_from(random_.below(n), kind.shape == 3 ? (size + 1) / 2 : size);
  if (kind.shape == 3) grow_from(random_.below(n), (size + 1) / 2);
  for (int i : region_) in_region_[i] = 0;
  std::sort(region_.begin(), region_.end());
}

template <class Real>
void Search<Real>::price_region(const std::vector<double>& prices) {
  const double spread = random_.below(3) ? 0.3 : 1.5;
  const double scale = std::exp((random_.unit() - 0.5) * 2 * spread);
  int begin = 0, end = 0;
  double window = 1;
  if (model_.times > 1 && random_.below(2)) {
    begin = random_.below(model_.times);
    end = random_.below(model_.times);
    if (begin > end) std::swap(begin, end);
    ++end;
    window = std::exp((random_.unit() - 0.5) * 4);
  }
  for (int t = 0; t < model_.times; ++t) {
    const double factor = t >= begin && t < end ? scale * window : scale;
    prefix_[t + 1] = prefix_[t] + prices[t] * factor;
  }
  const double total = std::abs(state_.cost());
  const double noise = random_.below(3) == 0 ? 0.05 * random_.unit() * total / model_.n : 0;
  for (int i : region_) {
    const int k = model_.k[i];
    Real* row = &cost_[model_.offset[i]];
    const double* cost = &model_.cost[model_.offset[i]];
    double sum[64];
    std::vector<double> large;
    double* out = sum;
    if (k > 64) {
      large.resize(k);
      out = large.data();
    }
    std::copy_n(cost, k, out);
    for (int m = model_.first_memory[i]; m < model_.first_memory[i + 1]; ++m) {
      const Model::Memory& memory = model_.memory[m];
      const double weight = prefix_[memory.end] - prefix_[memory.begin];
      if (weight <= 0) continue;
      for (int s = 0; s < k; ++s)
        out[s] += weight * static_cast<double>(model_.usage[memory.at + s]);
    }
    if (noise > 0) {
      for (int s = 0; s < k; ++s) out[s] += noise * random_.unit();
    }
    if (random_.below(20) == 0) {
      const double push = random_.unit();
      out[random_.below(k)] += 1e-3 * total * push * random_.unit();
    }
    for (int s = 0; s < k; ++s) row[s] = static_cast<Real>(out[s]);
    work_ += 10 + k;
  }
  work_ += model_.times;
}

template <class Real>
void Search<Real>::step(const std::vector<double>& prices, double threshold) {
  Kind& kind = kinds_[pick_kind()];
  const double start = work();
  pick_region(kind);
  price_region(prices);
  const std::size_t size = region_.size();
  double width = size <= 60 ? 17 : size <= 250 ? 15 : size <= 1000 ? 14 : 12;
  if (model_.n < 1000 && random_.below(3) == 0) width = 16 + random_.below(4);
  const double best = best_.cost;
  if (kind.domain > 0) {
    confine(kind.domain);
    width = std::min(kMostWidth, width + 1);
  }
  propose_and_repair(width, threshold, kind.domain > 0);
  kind.work += 0.05 * (work() - start - kind.work);
  const double gain = best - best_.cost;
  for (Kind& other : kinds_) other.gain *= kFade;
  kind.gain += gain;
  gained_ = gained_ * kFade + gain;
}

// The present strategy and those that look best, more or less.
template <class Real>
void Search<Real>::confine(int most) {
  domains_.first.assign(1, 0);
  domains_.list.clear();
  std::vector<std::pair<double, int>> order;
  for (int i : region_) {
    const int now = state_.x()[i];
    domains_.list.push_back(now);
    order.clear();
    const float* above = above_ && !above_->empty() ? &(*above_)[model_.offset[i]] : nullptr;
    for (int s = 0; s < model_.k[i]; ++s) {
      if (s == now) continue;
      const double value = above ? above[s] : state_.local(i, s) - state_.local(i, now);
      order.emplace_back(value * (0.3 + 1.4 * random_.unit()), s);
    }
    const int count = std::min<int>(most - 1, static_cast<int>(order.size()));
    std::partial_sort(order.begin(), order.begin() + count, order.end());
    for (int q = 0; q < count; ++q) domains_.list.push_back(order[q].second);
    domains_.first.push_back(static_cast<int>(domains_.list.size()));
    work_ += 6 * model_.k[i];
  }
}

template <class Real>
void Search<Real>::propose_and_repair(double width, double threshold, bool confined) {
  proposal_ = state_.x();
  elimination_.run(region_, cost_.data(), proposal_, width, 3, random_,
                   confined ? &domains_ : nullptr);
  state_.mark();
  const double from = state_.cost();
  for (int i : region_) state_.move(i, proposal_[i]);
  work_ += static_cast<double>(model_.n) * 0.1;
  if (state_.log().empty()) return;
  bool taken = state_.repair(from * (1 + kSlack) + 1, random_);
  if (taken) {
    state_.descend(false, random_);
    const double most = std::max(from, best_.cost * (1 + threshold * random_.unit()));
    taken = state_.fits() && state_.cost() <= most + 0.25;
  }
  if (!taken) {
    state_.undo();
  } else if (state_.cost() < best_.cost - 0.5) {
    state_.refresh();
    best_.offer(state_.x(), state_.cost());
  }
}

// Where the two differ, by connected parts: apart from memory, one does not touch the other.
template <class Real>
std::vector<std::vector<int>> Search<Real>::differences(const std::vector<int>& other) {
  std::vector<std::vector<int>> parts;
  const auto enter = [&](int i, std::vector<int>& part) {
    if (in_region_[i] || state_.x()[i] == other[i]) return;
    in_region_[i] = 1;
    part.push_back(i);
  };
  for (int seed = 0; seed < model_.n; ++seed) {
    std::vector<int> part;
    enter(seed, part);
    for (std::size_t head = 0; head < part.size(); ++head) {
      const int i = part[head];
      for (int a = model_.first_arc[i]; a < model_.first_arc[i + 1]; ++a) {
        enter(model_.arcs[a].to, part);
      }
    }
    if (!part.empty()) parts.push_back(std::move(part));
  }
  for (const std::vector<int>& part : parts) {
    for (int i : part) in_region_[i] = 0;
  }
  work_ += model_.n;
  return parts;
}

template <class Real>
void Search<Real>::fuse(const std::vector<int>& other) {
  std::vector<std::vector<int>> parts = differences(other);
  if (parts.size() < 2) return;
  const std::vector<int> own = state_.x();
  bool moved = true, changed = false;
  for (int pass = 0; pass < kFusePasses && moved; ++pass) {
    moved = false;
    for (std::vector<int>& part : parts) {
      if (part.empty()) continue;
      state_.mark();
      const double from = state_.cost();
      for (int i : part) state_.move(i, other[i]);
      if (state_.cost() < from - 0.5 && state_.repair(from - 0.5, random_)) {
        moved = changed = true;
        part.clear();
      } else {
        state_.undo();
      }
    }
  }
  if (!changed) return;
  if (state_.cost() < best_.cost - 0.5) {
    state_.refresh();
    best_.offer(state_.x(), state_.cost());
  } else {
    for (int i = 0; i < model_.n; ++i) state_.move(i, own[i]);
  }
  state_.mark();
}

template class Search<float>;
template class Search<double>;

}  // namespace cleave::solver
