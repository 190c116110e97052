#include "cleave/solve/branch.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "cleave/core/parallel.h"
#include "cleave/solve/dual.h"
#include "cleave/solve/model.h"
#include "cleave/solve/search.h"

namespace cleave::solver {
namespace {

constexpr int kBatch = 8;       // tree nodes taken at a time
constexpr int kThinning = 8;    // rounds of bounding and thinning of one tree node
constexpr int kPatience = 40;   // sweeps in which the gap has to shrink by a fiftieth
constexpr int kSweeps = 400;    // of one round, at most
constexpr int kCandidates = 8;  // splits that are tried out; more near the root
constexpr int kRootCandidates = 200;
constexpr int kTrialSweeps = 6;
constexpr std::size_t kOpen = 3000;  // open nodes beyond which the deepest go first

constexpr double kWidth = 20;  // of tables that solve what has no memory

struct TreeNode {
  std::shared_ptr<const Reduction> reduction;
  std::vector<double> prices;  // by time name
  double bound = 0;
  int depth = 0;
  int split = -1;  // the node to restrict, and its strategies to keep
  std::vector<char> keep;
};

// What came of a tree node.
struct Processed {
  std::vector<TreeNode> children;
  std::vector<int> picked;
  double cost = kBig;
  double work = 0;
  bool unfinished = false;  // the clock ran out in between
};

class Worker {
 public:
  Worker(const std::vector<std::int64_t>& order, double upper, std::uint64_t seed,
         const Budget& budget)
      : order_(order),
        upper_(upper),
        seed_(seed),
        budget_(budget),
        allowance_(0.5 * (budget.total() - budget.spent())) {}

  Processed run(const TreeNode& node) {
    Reduction reduction = *node.reduction;
    if (node.split >= 0) reduction.restrict(node.split, node.keep);
    std::vector<double> prices = node.prices;
    double bound = node.bound;
    for (int round = 0; round < kThinning; ++round) {
      const double before = reduction.work();
      const bool possible = reduction.run(expired_);
      result_.work += reduction.work() - before;
      if (!possible) return std::move(result_);
      const Model model = build_model(reduction, order_, expired_);
      if (model.n == 0) {
        offer(reduction, model, {}, model.constant);
        return std::move(result_);
      }
      if (const std::vector<int> x = eliminate_all(model, kWidth, expired_); !x.empty()) {
        result_.work += 20 * model.entries;
        offer(reduction, model, x, model.evaluate(x));
        return std::move(result_);
      }
      Dual<double> dual(model);
      dual.keep_shares();
      if (!prices.empty()) dual.set_prices(prices_for(model, prices));
      AlignedVector<double> with;
      bound = std::max(bound, improve(reduction, model, dual, with));
      prices = prices_by_name(model, dual.best_prices());
      result_.work += dual.work();
      if (bound > goal()) return std::move(result_);
      if (budget_.expired()) {
        result_.unfinished = true;
        return std::move(result_);
      }
      const double removed = thin(model, with, reduction);
      if (reduction.infeasible()) return std::move(result_);
      if (removed > 0.02 && round + 1 < kThinning) continue;
      if (removed > 0) {
        reduction.run(expired_);
        if (reduction.infeasible()) return std::move(result_);
        split(reduction, build_model(reduction, order_, expired_), prices, bound, node.depth);
      } else {
        branch(reduction, model, dual, with, prices, bound, node.depth);
      }
      return std::move(result_);
    }
    return std::move(result_);
  }

 private:
  // Solutions have whole costs: one below `upper` costs at most this.
  double goal() const { return std::min(upper_, result_.cost) - 1 + 1e-5; }

  void offer(const Reduction& reduction, const Model& model, const std::vector<int>& x,
             double cost) {
    if (cost > goal()) return;
    result_.picked = reduction.expand(to_reduced(reduction, model, x));
    result_.cost = cost;
  }

  double improve(const Reduction& reduction, const Model& model, Dual<double>& dual,
                 AlignedVector<double>& with) {
    Search<double> rounder(model, seed_);
    std::vector<int> x(model.n, 0);
    double marked = -kBig;
    for (int q = 1; q <= kSweeps; ++q) {
      dual.iterate(goal() + 1);
      if (dual.bound() > goal() || dual.converged()) break;
      if (q % kPatience == 0) {
        if (q > kPatience && dual.bound() - marked < 0.02 * (goal() - marked)) break;
        marked = dual.bound();
      }
      if (q % 10 == 0 && budget_.expired()) break;
      if (q % 100 == 0) {
        dual.messages().round(dual.cost(), q % 200 == 0, x);
        if (rounder.complete(dual.cost(), x, 12)) {
          offer(reduction, model, rounder.best().x, rounder.best().cost);
        }
      }
    }
    result_.work += rounder.work();
    dual.polish(5);
    return dual.certify(&with);
  }

  // Removes strategies that no solution below the goal takes; returns their fraction.
  double thin(const Model& model, const AlignedVector<double>& with, Reduction& reduction) {
    int removed = 0, total = 0;
    for (int i = 0; i < model.n && !reduction.infeasible(); ++i) {
      std::vector<char> keep(model.k[i], 1);
      int gone = 0;
      for (int s = 0; s < model.k[i]; ++s) {
        if (with[model.offset[i] + s] > goal()) {
          keep[s] = 0;
          ++gone;
        }
      }
      total += model.k[i];
      removed += gone;
      if (gone > 0) reduction.restrict(model.root[i], keep);
    }
    return static_cast<double>(removed) / std::max(1, total);
  }

  // Price of the memory that each strategy of node i takes.
  std::vector<double> priced_memory(const Model& model, int i,
                                    const std::vector<double>& prefix) const {
    std::vector<double> price(model.k[i], 0);
    for (int m = model.first_memory[i]; m < model.first_memory[i + 1]; ++m) {
      const Model::Memory& memory = model.memory[m];
      const double weight = prefix[memory.end] - prefix[memory.begin];
      for (int s = 0; s < model.k[i]; ++s) {
        price[s] += weight * static_cast<double>(model.usage[memory.at + s]);
      }
    }
    return price;
  }

  struct Split {
    int node = -1;
    std::vector<char> low;
    double score = 0;
  };

  // Strategies below and above the mean, in memory if it is dear, else in bound.
  std::vector<Split> candidates(const Model& model, const Dual<double>& dual,
                                const AlignedVector<double>& with, double bound,
                                std::size_t most) const {
    std::vector<double> prefix(model.times + 1, 0);
    std::partial_sum(dual.best_prices().begin(), dual.best_prices().end(), prefix.begin() + 1);
    std::vector<Split> splits;
    for (int i = 0; i < model.n; ++i) {
      const int k = model.k[i];
      const float* share = &dual.shares()[model.offset[i]];
      const std::vector<double> memory = priced_memory(model, i, prefix);
      const double total = std::accumulate(share, share + k, 0.0);
      if (total <= 0) continue;
      const auto consider = [&](const std::vector<double>& value, double weight) {
        double mean = 0;
        for (int s = 0; s < k; ++s) mean += share[s] / total * value[s];
        double spread = 0, below = 0;
        std::vector<char> low(k, 0);
        for (int s = 0; s < k; ++s) {
          spread += share[s] / total * std::abs(value[s] - mean);
          low[s] = value[s] <= mean;
          if (low[s]) below += share[s] / total;
        }
        const int count = static_cast<int>(std::count(low.begin(), low.end(), 1));
        if (count == 0 || count == k) return;
        splits.push_back({i, low, weight * spread * std::min(below, 1 - below) + 1e-9 * spread});
      };
      consider(memory, 1);
      std::vector<double> above(k);
      for (int s = 0; s < k; ++s) above[s] = with[model.offset[i] + s] - bound;
      consider(above, 0.3);
    }
    std::stable_sort(splits.begin(), splits.end(),
                     [](const Split& a, const Split& b) { return a.score > b.score; });
    if (splits.size() > most) splits.resize(most);
    return splits;
  }

  // The bound when node i is confined to the strategies with keep[s] == side.
  double trial(const Model& model, const Dual<double>& dual, const Split& split, char side) {
    Messages<double> messages = dual.messages();
    AlignedVector<double> cost(dual.cost(), dual.cost() + model.strategies());
    for (int s = 0; s < model.k[split.node]; ++s) {
      if (split.low[s] != side) cost[model.offset[split.node] + s] = kBig;
    }
    double bound = 0;
    for (int q = 0; q < kTrialSweeps; ++q) bound = messages.sweep(cost.data());
    result_.work += kTrialSweeps * messages.sweep_work();
    return bound;
  }

  // How hard one side of a split looks: what is left of it, times what is left of the gap.
  double difficulty(const Reduction& reduction, const Model& model, const Dual<double>& dual,
                    const Split& split, char side, double here, double bound) {
    const double gained = std::max(0.0, trial(model, dual, split, side) - here);
    if (bound + gained > goal()) return 0;
    Reduction part = reduction;
    std::vector<char> keep(split.low.size());
    for (std::size_t s = 0; s < keep.size(); ++s) keep[s] = split.low[s] == side;
    part.restrict(model.root[split.node], keep);
    const bool possible = part.run(expired_);
    result_.work += 3 * (part.work() - reduction.work()) + 2 * model.entries;
    if (!possible) return 0;
    double left = 0;
    for (const ReducedNode& node : part.nodes()) {
      if (!node.gone) left += static_cast<double>(node.cost.size()) - 1;
    }
    return left * (0.02 + 1 - gained / (goal() - bound));
  }

  void branch(const Reduction& reduction, const Model& model, const Dual<double>& dual,
              const AlignedVector<double>& with, const std::vector<double>& prices, double bound,
              int depth) {
    const int most = std::max(kCandidates, kRootCandidates >> (2 * std::min(depth, 8)));
    const std::vector<Split> splits = candidates(model, dual, with, bound, most);
    Split best;
    double least = 1e300;
    Messages<double> plain = dual.messages();
    const double here = plain.sweep(dual.cost());
    for (const Split& split : splits) {
      if (budget_.expired() || (best.node >= 0 && result_.work > allowance_)) break;
      const double low = difficulty(reduction, model, dual, split, 1, here, bound);
      const double high = difficulty(reduction, model, dual, split, 0, here, bound);
      const double score = low + high + 0.5 * std::max(low, high);
      if (score < least) {
        least = score;
        best = split;
      }
    }
    if (best.node < 0) best = halves(model);
    push_children(reduction, model, best, prices, bound, depth);
  }

  // Without bounds at hand: the node with most strategies, in two halves by cost.
  static Split halves(const Model& model) {
    Split split;
    split.node =
        static_cast<int>(std::max_element(model.k.begin(), model.k.end()) - model.k.begin());
    const int k = model.k[split.node];
    split.low.assign(k, 0);
    for (int s = 0; s < k / 2; ++s) split.low[s] = 1;
    return split;
  }

  void split(const Reduction& reduction, const Model& model, const std::vector<double>& prices,
             double bound, int depth) {
    if (model.n == 0) return offer(reduction, model, {}, model.constant);
    TreeNode again;
    again.reduction = std::make_shared<Reduction>(reduction);
    again.prices = prices;
    again.bound = bound;
    again.depth = depth;
    result_.children.push_back(std::move(again));
  }

  void push_children(const Reduction& reduction, const Model& model, const Split& split,
                     const std::vector<double>& prices, double bound, int depth) {
    const auto shared = std::make_shared<const Reduction>(reduction);
    for (char side : {0, 1}) {
      TreeNode child;
      child.reduction = shared;
      child.prices = prices;
      child.bound = bound;
      child.depth = depth + 1;
      child.split = model.root[split.node];
      child.keep.resize(model.k[split.node]);
      for (int s = 0; s < model.k[split.node]; ++s) child.keep[s] = split.low[s] == side;
      result_.children.push_back(std::move(child));
    }
  }

  const std::vector<std::int64_t>& order_;
  double upper_;
  std::uint64_t seed_;
  const Budget& budget_;
  double allowance_;  // work beyond which a split is good enough
  const std::function<bool()> expired_ = [this] { return budget_.expired(); };
  Processed result_;
};

}  // namespace

BranchOutcome branch_and_bound(const Reduction& root, const std::vector<std::int64_t>& order,
                               const std::vector<double>& prices, double upper,
                               const BranchOptions& options, Budget& budget) {
  BranchOutcome outcome;
  std::vector<TreeNode> open(1);
  open[0].reduction = std::make_shared<const Reduction>(root);
  open[0].prices = prices;
  open[0].bound = -kBig;
  while (!open.empty()) {
    // Lowest bound first, so that the bound over all rises; deepest first when there are many.
    const bool deep = open.size() > kOpen;
    std::stable_sort(open.begin(), open.end(), [deep](const TreeNode& a, const TreeNode& b) {
      if (deep && a.depth != b.depth) return a.depth < b.depth;
      return a.bound > b.bound;
    });
    double least = upper;
    for (const TreeNode& node : open) least = std::min(least, node.bound);
    outcome.bound = std::max(outcome.bound, least);
    if (options.observe) options.observe(outcome.bound, upper);
    if (budget.done()) return outcome;
    const int count = std::min<int>(kBatch, static_cast<int>(open.size()));
    std::vector<TreeNode> batch(std::make_move_iterator(open.end() - count),
                                std::make_move_iterator(open.end()));
    open.resize(open.size() - count);
    std::vector<Processed> results(count);
    run_parallel(count, options.threads, [&](int q) {
      if (batch[q].bound > upper - 1 + 1e-5) return;
      const std::uint64_t seed = options.seed + outcome.nodes + q;
      results[q] = Worker(order, upper, seed, budget).run(batch[q]);
    });
    outcome.nodes += count;
    for (int q = 0; q < count; ++q) {
      Processed& result = results[q];
      budget.spend(result.work);
      if (!result.picked.empty() && result.cost < upper) {
        upper = result.cost;
        outcome.cost = result.cost;
        outcome.picked = std::move(result.picked);
      }
      if (result.unfinished) open.push_back(std::move(batch[q]));
      for (TreeNode& child : result.children) open.push_back(std::move(child));
    }
    std::erase_if(open, [upper](const TreeNode& node) { return node.bound > upper - 1 + 1e-5; });
  }
  outcome.complete = true;
  outcome.bound = upper;
  return outcome;
}

}  // namespace cleave::solver
