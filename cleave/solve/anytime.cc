#include "cleave/solve/anytime.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "cleave/core/parallel.h"
#include "cleave/solve/dual.h"

namespace cleave::solver {
namespace {

constexpr double kThreshold = 0.01;  // by which the searches may get worse at first, at most
constexpr double kOfGap = 0.6;       // and at most this much of the gap
constexpr int kLaunches = 8;         // tries to start a lineage
constexpr int kMessageSweeps = 20;   // before lineages start from prices known from elsewhere

template <class Real>
class Anytime {
 public:
  Anytime(const Model& model, const AnytimeOptions& options, Budget& budget)
      : model_(model),
        options_(options),
        budget_(budget),
        dual_(model),
        rounder_(model, options.seed) {
    for (int w = 0; w < std::max({1, options.workers, options.lineages}); ++w) {
      searches_.push_back(
          std::make_unique<Search<Real>>(model, options.seed * 1000 + 17 * (w + 1)));
    }
    findings_.prices = options.prices;
    findings_.prices.resize(model.times, 0);
    recent_prices_ = findings_.prices;
    if (!options.prices.empty()) dual_.set_prices(findings_.prices);
    if (!options.messages.empty()) dual_.set_messages(options.messages);
    if (!options.x.empty()) start_from(options.x);
    if (options.with) rank_by(*options.with);
    for (const auto& search : searches_) search->rank(ranks_);
    dual_finished_ = options.search_only;
    free_ = std::max(1, std::max(1, options.workers) - (dual_finished_ ? 0 : 1));
    alive_.resize(std::max(free_, options.lineages));
    std::iota(alive_.begin(), alive_.end(), 0);
    if (dual_finished_ && apart()) {
      dual_.polish(kMessageSweeps);
      budget.spend(dual_.work());
    }
  }

  Findings run() {
    const int workers = std::max(1, options_.workers);
    double largest = budget_.total() / workers / (apart() ? 400 : 150);
    const double begin = budget_.progress(),
                 end = dual_finished_ ? options_.until : options_.dual_until;
    const int halvings = halvings_left();
    if (options_.patience > 0) largest = std::min(largest, 1e8);
    double quantum = std::max(1e4, 40 * dual_.messages().sweep_work());
    int idle = 0;
    while (!budget_.done() && !closed()) {
      if (budget_.progress() >= options_.until || (options_.dual_only && dual_finished_)) break;
      if (options_.dual_only && gap() < options_.pause) {
        findings_.dual_paused = true;
        break;
      }
      quantum =
          std::min(quantum * 1.5, std::max({largest, 1e4, 20 * dual_.messages().sweep_work()}));
      const double progress = budget_.progress();
      const bool dual_on = !dual_finished_;
      const double most = std::min(kThreshold, kOfGap * gap());
      threshold_ = progress > 0.9 ? 0 : most * (1 - progress) * (1 - progress);
      const int halved = halvings - halvings_left();
      if (apart() && progress >= begin + (end - begin) * (halved + 1) / (halvings + 0.5)) halve();
      const double before = findings_.incumbent.cost;
      const int turn = turn_;
      run_parallel(workers, options_.threads, [&](int w) {
        if (w == 0 && dual_on) {
          work_on_dual(quantum);
        } else {
          const int slot = turn + w - (dual_on && workers > 1 ? 1 : 0);
          work_on_search(alive_[slot % static_cast<int>(alive_.size())], quantum);
        }
      });
      turn_ = (turn_ + free_) % static_cast<int>(alive_.size());
      budget_.spend(quantum * workers);
      merge(dual_on, progress);
      if (options_.observe) options_.observe(dual_on ? "dual" : "search", findings_);
      idle = findings_.incumbent.cost < before - 0.5 || dual_on ? 0 : idle + 1;
      if (options_.patience > 0 && idle >= options_.patience) break;
    }
    if (!dual_finished_) finish_dual();
    if (!options_.search_only && !findings_.incumbent.found() && dual_.iterations() == 0) {
      round();  // there was no time for more
      findings_.incumbent.offer(rounder_.best().x, rounder_.best().cost);
    }
    return std::move(findings_);
  }

 private:
  // Between the incumbent and the best bound so far, as a fraction; 1 when either is missing.
  double gap() const {
    const double cost = findings_.incumbent.cost;
    const double bound = std::max({findings_.bound, options_.bound, dual_.bound()});
    if (!findings_.incumbent.found() || bound <= 0) return 1;
    return std::max(0.0, (cost - bound) / cost);
  }

  bool closed() const {
    if (!findings_.incumbent.found()) return false;
    const double cost = findings_.incumbent.cost;
    const double bound = std::max(findings_.bound, options_.bound);
    return findings_.bound > cost - 1 + 1e-6 || cost - bound < options_.gap * cost;
  }

  void start_from(const std::vector<int>& x) {
    State state(model_);
    state.assign(x);
    Random random(options_.seed);
    if (state.cost() < kBig / 4 && state.repair(kBig, random)) {
      state.refresh();
      findings_.incumbent.offer(state.x(), state.cost());
    }
  }

  double target() const {
    if (findings_.incumbent.found()) return findings_.incumbent.cost;
    return std::max(2 * dual_.bound(), dual_.bound() + 1);
  }

  // Sweeps, and now and then a solution from the messages.
  void work_on_dual(double quantum) {
    const double start = dual_.work() + rounder_.work();
    double rounding = 0;
    bool rounded = false;
    while (dual_.work() + rounder_.work() - start < quantum && !budget_.expired()) {
      for (int q = 0; q < 10 && !budget_.expired(); ++q) dual_.iterate(target());
      const double spent = dual_.work() + rounder_.work() - start;
      if (!rounded || rounding < 0.33 * spent) {
        const double before = rounder_.work();
        round();
        rounding += rounder_.work() - before;
        rounded = true;
      }
      if (dual_.converged()) break;
    }
  }

  void round() {
    std::vector<int> x(model_.n, 0);
    dual_.messages().round(dual_.cost(), forward_, x);
    forward_ = !forward_;
    const double before = rounder_.work();
    rounder_.complete(dual_.cost(), x, width_);
    const double spent = rounder_.work() - before;
    if (spent < 2e7 && width_ < 18) width_ += 0.2;
    if (spent > 1e8 && width_ > 10) width_ -= 0.5;
  }

  void work_on_search(int lineage, double quantum) {
    Search<Real>& search = *searches_[lineage];
    const double start = search.work();
    const Incumbent& incumbent = findings_.incumbent;
    if (!incumbent.found()) return seek(search, quantum);
    if (apart()) {
      if (!search.started() && (lineage == 0 || !begin_apart(search, lineage))) {
        search.start(incumbent.x);
      }
    } else {
      join(search);
    }
    while (search.work() - start < quantum && !budget_.expired()) {
      for (int q = 0; q < 8; ++q) {
        search.step(search.random().below(2) ? recent_prices_ : findings_.prices, threshold_);
      }
    }
  }

  // The searches follow the best of them, and each takes over what the others did better.
  void join(Search<Real>& search) {
    const Incumbent& incumbent = findings_.incumbent;
    if (!search.started()) {
      search.start(incumbent.x);
    } else if (incumbent.cost < search.cost() * (1 - threshold_) - 0.5) {
      const std::vector<int> own = search.x();
      search.start(incumbent.x);
      search.fuse(own);
    }
    for (const std::vector<int>& other : others_) search.fuse(other);
  }

  // From the dual, or from a solution that is partly destroyed, by turns.
  bool begin_apart(Search<Real>& search, int lineage) {
    if (!dual_finished_ || lineage % 2 == 0) return launch(search);
    for (int tries = 0; tries < kLaunches && !budget_.expired(); ++tries) {
      if (search.start_beside(findings_.incumbent.x, findings_.prices)) return true;
    }
    return false;
  }

  // A solution of its own: the messages rounded under higher and higher prices, with noise.
  bool launch(Search<Real>& search) {
    Random& random = search.random();
    std::vector<double> prefix(model_.times + 1, 0);
    AlignedVector<Real> cost(model_.strategies());
    const double noise = 0.1 * random.unit() * findings_.incumbent.cost / model_.n;
    double scale = std::exp(0.6 * random.unit());
    for (int tries = 0; tries < kLaunches && !budget_.expired(); ++tries, scale *= 1.7) {
      for (int t = 0; t < model_.times; ++t) {
        prefix[t + 1] = prefix[t] + scale * findings_.prices[t];
      }
      model_.price(prefix, cost.data());
      for (Real& c : cost) c += static_cast<Real>(noise * random.unit());
      std::vector<int> x = dual_start_;
      x.resize(model_.n, 0);
      if (dual_finished_) dual_.messages().round(cost.data(), random.below(2) > 0, x);
      if (!search.complete(cost.data(), x, 12)) continue;
      search.start(x);
      return true;
    }
    return false;
  }

  // Any solution at all: prices far above those of the dual.
  void seek(Search<Real>& search, double quantum) {
    const double start = search.work();
    std::vector<double> prefix(model_.times + 1, 0);
    AlignedVector<Real> cost(model_.strategies());
    double most = 0;
    for (double p : recent_prices_) most = std::max(most, p);
    if (most == 0) {
      const double scale = std::abs(model_.evaluate(std::vector<int>(model_.n, 0)));
      most = std::min(scale, 1e15) / (1.0 + static_cast<double>(model_.limit)) / model_.n;
    }
    while (search.work() - start < quantum && !budget_.expired() && !search.best().found()) {
      const double scale = std::exp2(search.random().below(12));
      const double even = search.random().below(2) ? most * search.random().unit() : 0;
      for (int t = 0; t < model_.times; ++t) {
        prefix[t + 1] = prefix[t] + scale * (recent_prices_[t] + even);
      }
      model_.price(prefix, cost.data());
      std::vector<int> x(model_.n, 0);
      dual_start_.resize(model_.n, 0);
      x = dual_start_;
      search.complete(cost.data(), x, 11);
    }
  }

  void merge(bool dual_on, double progress) {
    findings_.incumbent.offer(rounder_.best().x, rounder_.best().cost);
    for (const auto& search : searches_)
      findings_.incumbent.offer(search->best().x, search->best().cost);
    others_.clear();
    if (rounder_.best().found()) others_.push_back(rounder_.best().x);
    for (int lineage : alive_) {
      const Incumbent& best = searches_[lineage]->best();
      if (best.found()) others_.push_back(best.x);
    }
    if (!dual_on) return;
    recent_prices_ = dual_.prices();
    ranks_.assign(dual_.messages().beliefs(), dual_.messages().beliefs() + model_.strategies());
    findings_.prices = dual_.iterations() < 100 ? dual_.prices() : dual_.best_prices();
    dual_.messages().round(dual_.cost(), true, dual_start_ = std::vector<int>(model_.n, 0));
    const bool near = findings_.incumbent.found() && dual_.bound() > findings_.incumbent.cost - 1;
    if (near) certify();
    if (dual_.converged() || progress > options_.dual_until) finish_dual();
  }

  // What a strategy's bound says that it costs above the best of its node.
  void rank_by(const AlignedVector<double>& with) {
    if (with.empty()) return;
    ranks_.resize(model_.strategies());
    for (int i = 0; i < model_.n; ++i) {
      const double* row = &with[model_.offset[i]];
      const double least = *std::min_element(row, row + model_.k[i]);
      for (int s = 0; s < model_.k[i]; ++s) {
        ranks_[model_.offset[i] + s] = static_cast<float>(row[s] - least);
      }
    }
  }

  // Whether there are still more lineages than workers.
  bool apart() const { return alive_.size() > static_cast<std::size_t>(free_); }

  int halvings_left() const {
    int count = 0;
    const auto free = static_cast<std::size_t>(free_);
    for (std::size_t left = alive_.size(); left > free; left = (left + 1) / 2) ++count;
    return count;
  }

  // The worse half of the lineages goes.
  void halve() {
    std::stable_sort(alive_.begin(), alive_.end(), [this](int a, int b) {
      return searches_[a]->best().cost < searches_[b]->best().cost;
    });
    alive_.resize(std::max<std::size_t>(free_, (alive_.size() + 1) / 2));
    turn_ = 0;
  }

  void certify() {
    AlignedVector<double> with;
    const double bound = dual_.certify(&with);
    if (bound > findings_.bound || findings_.with.empty()) {
      findings_.bound = std::max(findings_.bound, bound);
      findings_.with.swap(with);
    }
  }

  void finish_dual() {
    dual_.polish(budget_.expired() ? 1 : findings_.dual_paused ? 5 : 40);
    certify();
    dual_finished_ = true;
    findings_.prices = dual_.best_prices();
    findings_.messages.assign(dual_.messages().raw().begin(), dual_.messages().raw().end());
  }

  const Model& model_;
  const AnytimeOptions& options_;
  Budget& budget_;
  Dual<Real> dual_;
  Search<Real> rounder_;
  std::vector<std::unique_ptr<Search<Real>>> searches_;
  Findings findings_;
  std::vector<double> recent_prices_;
  std::vector<int> dual_start_;
  std::vector<std::vector<int>> others_;  // the best of each lineage and of the rounding
  std::vector<float> ranks_;              // of strategies, within their node
  bool forward_ = true;
  bool dual_finished_ = false;
  double width_ = 12;
  double threshold_ = 0;
  std::vector<int> alive_;  // lineages: indices into searches_
  int free_ = 1;            // workers for them
  int turn_ = 0;            // the lineage that is next
};

}  // namespace

Findings run_anytime(const Model& model, const AnytimeOptions& options, Budget& budget) {
  if (model.n > kManyNodes || (model.times == 0 && model.entries > kManyEntries))
    return Anytime<float>(model, options, budget).run();
  return Anytime<double>(model, options, budget).run();
}

}  // namespace cleave::solver
