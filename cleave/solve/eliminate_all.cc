#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "cleave/solve/elimination.h"

namespace cleave::solver {
namespace {

// Eliminates in the order that Elimination takes, without the tables.
class Rehearsal {
 public:
  explicit Rehearsal(const Model& model) : log_size_(model.n), neighbours_(model.n) {
    for (int i = 0; i < model.n; ++i) {
      log_size_[i] = std::log2(static_cast<double>(model.k[i]));
      for (int a = model.first_arc[i]; a < model.first_arc[i + 1]; ++a)
        neighbours_[i].push_back(model.arcs[a].to);
      std::sort(neighbours_[i].begin(), neighbours_[i].end());
    }
  }

  bool fits(double width) {
    const double most = std::exp2(width + 5);
    double total = 0, kept = 0;
    std::set<std::pair<double, int>> order;
    std::vector<double> weight(neighbours_.size());
    for (std::size_t v = 0; v < neighbours_.size(); ++v) {
      weight[v] = weigh(static_cast<int>(v));
      order.emplace(weight[v], static_cast<int>(v));
    }
    while (!order.empty()) {
      const auto [least, v] = *order.begin();
      order.erase(order.begin());
      total += std::exp2(least);
      kept += std::exp2(least - log_size_[v]);
      if (least > width || total > most || kept > kMostKept) return false;
      if (neighbours_[v].size() >= kMostNeighbours) return false;
      const std::vector<int> scope = std::move(neighbours_[v]);
      for (int w : scope) {
        join(w, scope, v);
        order.erase({weight[w], w});
        weight[w] = weigh(w);
        order.emplace(weight[w], w);
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t kMostNeighbours = 20;
  static constexpr double kMostKept = 1 << 22;  // entries of all tables that are made

  double weigh(int v) const {
    double sum = log_size_[v];
    for (int w : neighbours_[v]) sum += log_size_[w];
    return sum;
  }

  // The neighbours of w: also those of `gone`, but for the two themselves.
  void join(int w, const std::vector<int>& scope, int gone) {
    merged_.clear();
    std::set_union(neighbours_[w].begin(), neighbours_[w].end(), scope.begin(), scope.end(),
                   std::back_inserter(merged_));
    std::erase_if(merged_, [&](int u) { return u == gone || u == w; });
    neighbours_[w].swap(merged_);
  }

  std::vector<double> log_size_;
  std::vector<std::vector<int>> neighbours_;  // sorted
  std::vector<int> merged_;
};

}  // namespace

std::vector<int> eliminate_all(const Model& model, double width,
                               const std::function<bool()>& expired) {
  if (model.times > 0 || !Rehearsal(model).fits(width)) return {};
  Elimination<double> elimination(model);
  std::vector<int> all(model.n), x(model.n, 0);
  std::iota(all.begin(), all.end(), 0);
  // A little more, since the sizes there are sums of floats.
  if (!elimination.run_whole(all, model.cost.data(), x, width + 1, expired)) return {};
  return x;
}

}  // namespace cleave::solver
