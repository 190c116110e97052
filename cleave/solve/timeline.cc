#include "cleave/solve/timeline.h"

#include <algorithm>
#include <numeric>

namespace cleave::solver {
namespace {

constexpr int kReach = 300;  // how far a time looks for others that it makes redundant

// Walks from one time to its neighbours, keeping the worst-case difference of usage.
class Walk {
 public:
  Walk(const std::vector<TimedUsage>& usages, const std::vector<int>& sizes, int times)
      : usages_(usages),
        sizes_(sizes),
        starts_(times + 1),
        ends_(times + 1),
        seen_(sizes.size(), -1) {
    for (std::size_t u = 0; u < usages.size(); ++u) {
      starts_[usages[u].begin].push_back(static_cast<int>(u));
      ends_[usages[u].end].push_back(static_cast<int>(u));
    }
    offset_.resize(sizes.size() + 1, 0);
    for (std::size_t i = 0; i < sizes.size(); ++i) offset_[i + 1] = offset_[i] + sizes[i];
    difference_.resize(offset_.back());
  }

  void begin(int round) {
    round_ = round;
    worst_ = 0;
  }
  // From time t - 1 to t, or from t to t - 1.
  void right(int t) {
    for (int u : ends_[t]) shift(u, -1);
    for (int u : starts_[t]) shift(u, 1);
  }
  void left(int t) {
    for (int u : starts_[t]) shift(u, -1);
    for (int u : ends_[t]) shift(u, 1);
  }
  // Sum over nodes of the largest difference to where the walk began.
  std::int64_t worst() const { return worst_; }

 private:
  void shift(int u, int sign) {
    const TimedUsage& usage = usages_[u];
    std::int64_t* d = &difference_[offset_[usage.node]];
    const int k = sizes_[usage.node];
    if (seen_[usage.node] != round_) {
      seen_[usage.node] = round_;
      std::fill(d, d + k, 0);
    }
    worst_ -= *std::max_element(d, d + k);
    for (int s = 0; s < k; ++s) d[s] += sign * usage.usage[s];
    worst_ += *std::max_element(d, d + k);
  }

  const std::vector<TimedUsage>& usages_;
  const std::vector<int>& sizes_;
  std::vector<std::vector<int>> starts_, ends_;
  std::vector<std::int64_t> difference_;
  std::vector<std::size_t> offset_;
  std::vector<int> seen_;
  int round_ = -1;
  std::int64_t worst_ = 0;
};

}  // namespace

std::vector<char> binding_times(const std::vector<std::int64_t>& base, std::int64_t limit,
                                const std::vector<TimedUsage>& usages,
                                const std::vector<int>& sizes,
                                const std::function<bool()>& expired) {
  const int times = static_cast<int>(base.size());
  std::vector<char> kept(times, 1);
  std::vector<std::int64_t> most(times + 1, 0), mean(times + 1, 0);
  for (const TimedUsage& u : usages) {
    const std::int64_t high = *std::max_element(u.usage.begin(), u.usage.end());
    const std::int64_t middle = std::accumulate(u.usage.begin(), u.usage.end(), std::int64_t{0}) /
                                static_cast<std::int64_t>(u.usage.size());
    most[u.begin] += high;
    most[u.end] -= high;
    mean[u.begin] += middle;
    mean[u.end] -= middle;
  }
  std::partial_sum(most.begin(), most.end(), most.begin());
  std::partial_sum(mean.begin(), mean.end(), mean.begin());
  std::vector<int> order;
  for (int t = 0; t < times; ++t) {
    if (base[t] + most[t] <= limit) {
      kept[t] = 0;
    } else {
      order.push_back(t);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return base[a] + mean[a] > base[b] + mean[b]; });
  Walk walk(usages, sizes, times);
  int round = 0;
  for (int p : order) {
    if (!kept[p]) continue;
    if (expired && round % 64 == 0 && expired()) break;
    walk.begin(round++);
    for (int t = p + 1; t < std::min(times, p + kReach); ++t) {
      walk.right(t);
      if (kept[t] && base[t] + walk.worst() <= base[p]) kept[t] = 0;
    }
    walk.begin(round++);
    for (int t = p - 1; t >= std::max(0, p - kReach); --t) {
      walk.left(t + 1);
      if (kept[t] && base[t] + walk.worst() <= base[p]) kept[t] = 0;
    }
  }
  return kept;
}

}  // namespace cleave::solver
