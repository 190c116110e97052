#include "cleave/solve/state.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace cleave::solver {
namespace {

constexpr int kBuckets = 512;
constexpr int kRepairRounds = 400;
constexpr int kSample = 700;  // nodes that a repair looks at, at most

}  // namespace

void RangeMax::assign(const std::vector<std::int64_t>& values) {
  size_ = 1;
  while (size_ < static_cast<int>(values.size())) size_ *= 2;
  if (values.empty()) size_ = 0;
  node_.assign(2 * size_, INT64_MIN / 2);
  lazy_.assign(2 * size_, 0);
  std::copy(values.begin(), values.end(), node_.begin() + size_);
  for (int p = size_ - 1; p > 0; --p) node_[p] = std::max(node_[2 * p], node_[2 * p + 1]);
}

void RangeMax::rebuild(int p) {
  while (p > 1) {
    p /= 2;
    node_[p] = std::max(node_[2 * p], node_[2 * p + 1]) + lazy_[p];
  }
}

void RangeMax::add(int begin, int end, std::int64_t amount) {
  const int first = begin + size_, last = end - 1 + size_;
  for (int l = first, r = last + 1; l < r; l /= 2, r /= 2) {
    if (l & 1) {
      node_[l] += amount;
      lazy_[l++] += amount;
    }
    if (r & 1) {
      node_[--r] += amount;
      lazy_[r] += amount;
    }
  }
  rebuild(first);
  rebuild(last);
}

std::int64_t RangeMax::max(int begin, int end) const {
  // Climbs from both ends, adding what is pending above the parts already seen.
  std::int64_t left = INT64_MIN / 2, right = INT64_MIN / 2;
  int l = begin + size_ - 1, r = end + size_;
  if (begin == 0 && end == size_) return node_[1];
  bool open_left = begin > 0;
  bool open_right = end < size_;
  if (!open_left) l = begin + size_;
  if (!open_right) r = end - 1 + size_;
  if (!open_left) left = node_[l];
  if (!open_right) right = node_[r];
  while ((l ^ r) > 1) {
    if (!(l & 1)) left = std::max(left, node_[l + 1]);
    if (r & 1) right = std::max(right, node_[r - 1]);
    l /= 2;
    r /= 2;
    left += lazy_[l];
    right += lazy_[r];
  }
  std::int64_t best = std::max(left, right);
  for (l /= 2; l >= 1; l /= 2) best += lazy_[l];
  return best;
}

int RangeMax::argmax() const {
  int p = 1;
  while (p < size_) p = node_[2 * p] >= node_[2 * p + 1] ? 2 * p : 2 * p + 1;
  return p - size_;
}

State::State(const Model& model) : model_(model), queued_(model.n, 0) {
  const int buckets = std::min(kBuckets, model.times);
  alive_.resize(buckets);
  for (int i = 0; i < model.n; ++i) {
    for (int m = model.first_memory[i]; m < model.first_memory[i + 1]; ++m) {
      const std::int64_t times = model.times;
      const int first = static_cast<int>(model.memory[m].begin * std::int64_t{buckets} / times);
      const int last = static_cast<int>((model.memory[m].end - 1) * std::int64_t{buckets} / times);
      for (int b = first; b <= last; ++b) {
        if (alive_[b].empty() || alive_[b].back() != i) alive_[b].push_back(i);
      }
    }
  }
}

void State::assign(const std::vector<int>& x) {
  x_ = x;
  local_ = model_.cost;
  for (int i = 0; i < model_.n; ++i) {
    double* row = &local_[model_.offset[i]];
    for (int a = model_.first_arc[i]; a < model_.first_arc[i + 1]; ++a) {
      const Model::Arc& back = model_.arcs[model_.arcs[a].reverse];
      const double* costs =
          &model_.tables[back.table +
                         static_cast<std::size_t>(x[model_.arcs[a].to]) * model_.stride(i)];
      for (int s = 0; s < model_.k[i]; ++s) row[s] += costs[s];
    }
  }
  std::vector<std::int64_t> usage;
  model_.profile(x, usage);
  memory_.assign(usage);
  cost_ = model_.evaluate(x);
  log_.clear();
  work_ += static_cast<double>(local_.size()) + 12.0 * static_cast<double>(model_.arcs.size());
}

void State::refresh() { cost_ = model_.evaluate(x_); }

void State::move(int i, int s) {
  const int from = x_[i];
  if (from == s) return;
  cost_ += local(i, s) - local(i, from);
  for (int a = model_.first_arc[i]; a < model_.first_arc[i + 1]; ++a) {
    const Model::Arc& arc = model_.arcs[a];
    const std::size_t width = model_.stride(arc.to);
    const double* to_row = &model_.tables[arc.table + s * width];
    const double* from_row = &model_.tables[arc.table + from * width];
    double* row = &local_[model_.offset[arc.to]];
    for (int t = 0; t < model_.k[arc.to]; ++t) row[t] += to_row[t] - from_row[t];
    work_ += 8 + model_.k[arc.to];
  }
  for (int m = model_.first_memory[i]; m < model_.first_memory[i + 1]; ++m) {
    const Model::Memory& memory = model_.memory[m];
    const std::int64_t change = model_.usage[memory.at + s] - model_.usage[memory.at + from];
    if (change) memory_.add(memory.begin, memory.end, change);
    work_ += 20;
  }
  x_[i] = s;
  log_.push_back({i, from});
}

void State::undo() {
  std::vector<Move> moves;
  moves.swap(log_);
  for (auto m = moves.rbegin(); m != moves.rend(); ++m) move(m->node, m->from);
  log_.clear();
}

bool State::fits_with(int i, int s) {
  const int from = x_[i];
  const int first = model_.first_memory[i], last = model_.first_memory[i + 1];
  int grows = 0;
  for (int m = first; m < last; ++m) {
    const Model::Memory& memory = model_.memory[m];
    grows += model_.usage[memory.at + s] > model_.usage[memory.at + from];
  }
  if (grows == 0) return true;
  work_ += 20 * (last - first);
  if (last - first == 1) {
    const Model::Memory& memory = model_.memory[first];
    return memory_.max(memory.begin, memory.end) + model_.usage[memory.at + s] -
               model_.usage[memory.at + from] <=
           model_.limit;
  }
  const auto shift = [&](int to, int back) {
    for (int m = first; m < last; ++m) {
      const Model::Memory& memory = model_.memory[m];
      const std::int64_t change = model_.usage[memory.at + to] - model_.usage[memory.at + back];
      if (change) memory_.add(memory.begin, memory.end, change);
    }
  };
  shift(s, from);
  const bool fit = fits();
  shift(from, s);
  work_ += 60 * (last - first);
  return fit;
}

std::int64_t State::usage_at(int i, int s, int time) const {
  std::int64_t total = 0;
  for (int m = model_.first_memory[i]; m < model_.first_memory[i + 1]; ++m) {
    const Model::Memory& memory = model_.memory[m];
    if (memory.begin <= time && time < memory.end) total += model_.usage[memory.at + s];
  }
  return total;
}

// Cost per unit freed at `time`; moves that pay by themselves come first.
double State::score(int i, int s, int time, std::int64_t excess) const {
  const std::int64_t freed = usage_at(i, x_[i], time) - usage_at(i, s, time);
  if (freed <= 0) return kBig;
  const double change = local(i, s) - local(i, x_[i]);
  if (change >= kBig / 4) return kBig;
  if (change <= 0) return change * 1e-3 - 1;
  return std::max(change, 1.0) / static_cast<double>(std::min(freed, excess));
}

bool State::worsens_elsewhere(int i, int s, int time) const {
  for (int m = model_.first_memory[i]; m < model_.first_memory[i + 1]; ++m) {
    const Model::Memory& memory = model_.memory[m];
    if (memory.begin <= time && time < memory.end) continue;
    const std::int64_t change = model_.usage[memory.at + s] - model_.usage[memory.at + x_[i]];
    if (change > 0 && memory_.max(memory.begin, memory.end) + change > model_.limit) return true;
  }
  return false;
}

// Greedy at one time, with scores brought up to date when they are used.
bool State::lower_peak(int time, double ceiling, Random& random) {
  const std::vector<int>& bucket = alive_[static_cast<std::size_t>(time) * alive_.size() /
                                          static_cast<std::size_t>(model_.times)];
  std::int64_t excess = memory_.max(time, time + 1) - model_.limit;
  std::priority_queue<Candidate> queue;
  const auto offer = [&](int i) {
    if (usage_at(i, x_[i], time) <= 0) return;
    Candidate best{kBig, i, -1};
    for (int s = 0; s < model_.k[i]; ++s) {
      if (s == x_[i]) continue;
      const double value = score(i, s, time, excess);
      if (value < best.score && !worsens_elsewhere(i, s, time)) best = {value, i, s};
    }
    work_ += 4 + 3.0 * model_.k[i] * (model_.first_memory[i + 1] - model_.first_memory[i]);
    if (best.strategy >= 0) queue.push(best);
  };
  const int alive = static_cast<int>(bucket.size());
  if (alive <= kSample) {
    for (int i : bucket) offer(i);
  } else {
    const int start = random.below(alive);
    for (int q = 0; q < kSample; ++q) offer(bucket[(start + q) % alive]);
  }
  while (excess > 0) {
    if (queue.empty()) return false;
    const Candidate top = queue.top();
    queue.pop();
    if (top.strategy == x_[top.node]) continue;
    const double now = score(top.node, top.strategy, time, excess);
    const bool stale = now > top.score + 1e-9 * std::abs(top.score);
    if (stale || worsens_elsewhere(top.node, top.strategy, time)) {
      const std::size_t before = queue.size();
      offer(top.node);
      if (queue.size() == before) continue;
      continue;
    }
    move(top.node, top.strategy);
    if (cost_ > ceiling) return false;
    offer(top.node);
    excess = memory_.max(time, time + 1) - model_.limit;
  }
  return true;
}

bool State::repair(double ceiling, Random& random) {
  if (model_.times == 0) return true;
  for (int round = 0; round < kRepairRounds; ++round) {
    if (fits()) return true;
    if (cost_ > ceiling || !lower_peak(memory_.argmax(), ceiling, random)) return false;
  }
  return fits();
}

void State::descend(bool everywhere, Random& random) {
  queue_.clear();
  const auto enqueue = [this](int i) {
    if (queued_[i]) return;
    queued_[i] = 1;
    queue_.push_back(i);
  };
  if (everywhere) {
    std::vector<int> order(model_.n);
    std::iota(order.begin(), order.end(), 0);
    for (int q = model_.n - 1; q > 0; --q) std::swap(order[q], order[random.below(q + 1)]);
    for (int i : order) enqueue(i);
  } else {
    for (const Move& m : log_) {
      enqueue(m.node);
      for (int a = model_.first_arc[m.node]; a < model_.first_arc[m.node + 1]; ++a) {
        enqueue(model_.arcs[a].to);
      }
    }
  }
  const std::size_t most = queue_.size() + 20 * static_cast<std::size_t>(model_.n) + 1000;
  for (std::size_t head = 0; head < queue_.size() && head < most; ++head) {
    const int i = queue_[head];
    queued_[i] = 0;
    const double* row = &local_[model_.offset[i]];
    int best = -1;
    double least = row[x_[i]] - 0.5;
    for (int s = 0; s < model_.k[i]; ++s) {
      if (row[s] < least && fits_with(i, s)) {
        least = row[s];
        best = s;
      }
    }
    work_ += model_.k[i];
    if (best < 0) continue;
    move(i, best);
    for (int a = model_.first_arc[i]; a < model_.first_arc[i + 1]; ++a) enqueue(model_.arcs[a].to);
  }
  for (int i : queue_) queued_[i] = 0;
}

}  // namespace cleave::solver
