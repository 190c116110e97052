#include "cleave/solve/mip.h"

#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/solve/child_process.h"

namespace cleave::solver {
namespace {

using Clock = std::chrono::steady_clock;

// Seconds beyond the limit that the library may take to notice it.
constexpr double kGrace = 0.3;

// Columns, and rows in compressed form.
struct Program {
  std::vector<double> objective;
  std::vector<char> integer;
  std::vector<int> start{0}, column;
  std::vector<double> value, lower, upper;

  int add_column(double cost, bool whole) {
    objective.push_back(cost);
    integer.push_back(whole);
    return static_cast<int>(objective.size()) - 1;
  }
  void add_term(int at, double factor) {
    column.push_back(at);
    value.push_back(factor);
  }
  void end_row(double low, double high) {
    start.push_back(static_cast<int>(column.size()));
    lower.push_back(low);
    upper.push_back(high);
  }
};

class MipSolve {
 public:
  MipSolve(const Problem& problem, const MipOptions& options)
      : problem_(problem), options_(options), begin_(Clock::now()) {
    add_nodes();
    add_edges();
    collect_times();
    if (!options.lazy_rows) {
      for (std::size_t t = 0; t < times_.size(); ++t) add_memory_row(t);
    }
  }

  Solution run() {
    Solution result;
    while (true) {
      std::vector<int> choice;
      double bound = 0;
      const Outcome outcome = optimise(choice, bound);
      result.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
      if (outcome == Outcome::kInfeasible) {
        result.proven = true;
        result.reason = "the integer program has no solution";
        return result;
      }
      if (outcome != Outcome::kOptimal) {
        result.effort_cut = true;
        result.lower_bound =
            static_cast<Int128>(std::max(0.0, std::ceil(bound - 1e-6 * std::abs(bound))));
        if (outcome == Outcome::kStopped) return result;
      }
      if (add_broken_rows(choice)) continue;
      const Evaluation evaluation = evaluate(problem_, choice);
      if (outcome == Outcome::kFound && !evaluation.feasible()) return result;
      internal_check(evaluation.feasible(), "solve_mip: the solution breaks the problem");
      result.feasible = true;
      result.choice = std::move(choice);
      result.cost = evaluation.cost;
      result.reason = "integer program";
      result.proven = outcome == Outcome::kOptimal;
      result.lower_bound = result.proven ? result.cost : std::min(result.lower_bound, result.cost);
      return result;
    }
  }

 private:
  // Found: a solution, though not known to be the best.
  enum class Outcome { kOptimal, kFound, kInfeasible, kStopped };

  void add_nodes() {
    for (const ProblemNode& node : problem_.nodes) {
      std::vector<int> columns;
      for (std::int64_t cost : node.costs) {
        const bool allowed = cost < kForbidden;
        columns.push_back(allowed ? program_.add_column(static_cast<double>(cost), true) : -1);
        if (allowed) program_.add_term(columns.back(), 1);
      }
      program_.end_row(1, 1);
      chosen_.push_back(std::move(columns));
    }
  }

  void add_edges() {
    for (const ProblemEdge& edge : problem_.edges) {
      const std::size_t ka = chosen_[edge.a].size(), kb = chosen_[edge.b].size();
      std::vector<int> pair(ka * kb, -1);
      for (std::size_t q = 0; q < pair.size(); ++q) {
        const bool diagonal = edge.a != edge.b || q / kb == q % kb;
        if (edge.costs[q] >= kForbidden || !diagonal) continue;
        if (chosen_[edge.a][q / kb] < 0 || chosen_[edge.b][q % kb] < 0) continue;
        pair[q] = program_.add_column(static_cast<double>(edge.costs[q]), false);
      }
      const auto tie = [&](int column, std::size_t first, std::size_t step, std::size_t count) {
        if (column < 0) return;
        for (std::size_t q = 0; q < count; ++q) {
          if (pair[first + q * step] >= 0) program_.add_term(pair[first + q * step], 1);
        }
        program_.add_term(column, -1);
        program_.end_row(0, 0);
      };
      for (std::size_t s = 0; s < ka; ++s) tie(chosen_[edge.a][s], s * kb, 1, kb);
      for (std::size_t t = 0; t < kb; ++t) tie(chosen_[edge.b][t], t, kb, ka);
    }
  }

  // Usage can only rise when a node begins to live.
  void collect_times() {
    if (!problem_.usage_limit) return;
    for (const ProblemNode& node : problem_.nodes) {
      if (node.live.lo < node.live.hi) times_.push_back(node.live.lo);
    }
    std::sort(times_.begin(), times_.end());
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
    has_row_.assign(times_.size(), 0);
  }

  void add_memory_row(std::size_t t) {
    const double limit = static_cast<double>(*problem_.usage_limit);
    const double scale = 1000 / std::max(1.0, limit);
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      const ProblemNode& node = problem_.nodes[i];
      if (times_[t] < node.live.lo || times_[t] >= node.live.hi) continue;
      for (std::size_t s = 0; s < node.usages.size(); ++s) {
        if (chosen_[i][s] < 0 || node.usages[s] == 0) continue;
        program_.add_term(chosen_[i][s], scale * static_cast<double>(node.usages[s]));
      }
    }
    program_.end_row(-1e30, scale * limit);
    has_row_[t] = 1;
  }

  bool add_broken_rows(const std::vector<int>& choice) {
    bool added = false;
    for (std::size_t t = 0; t < times_.size(); ++t) {
      Int128 usage = 0;
      for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
        const ProblemNode& node = problem_.nodes[i];
        if (times_[t] >= node.live.lo && times_[t] < node.live.hi) usage += node.usages[choice[i]];
      }
      if (usage <= *problem_.usage_limit || has_row_[t]) continue;
      add_memory_row(t);
      added = true;
    }
    return added;
  }

  Outcome optimise(std::vector<int>& choice, double& bound) {
    const double left =
        options_.time_limit - std::chrono::duration<double>(Clock::now() - begin_).count();
    if (left <= 0) return Outcome::kStopped;
    const auto numbers =
        run_in_child([&] { return run_library(left); }, left + kGrace, options_.stop);
    if (!numbers || numbers->size() < 2) return Outcome::kStopped;
    bound = (*numbers)[1];
    for (size_t i = 2; i < numbers->size(); ++i) choice.push_back(static_cast<int>((*numbers)[i]));
    return static_cast<Outcome>(static_cast<int>((*numbers)[0]));
  }

  // In the child: the outcome, the bound, and the choice for each node if there is one.
  std::vector<double> run_library(double seconds) const {
    std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> model(Cbc_newModel(), Cbc_deleteModel);
    load(model.get());
    Cbc_setLogLevel(model.get(), 0);
    Cbc_setParameter(model.get(), "log", "0");
    Cbc_setParameter(model.get(), "seconds", std::to_string(seconds).c_str());
    Cbc_setParameter(model.get(), "ratioGap", "0");
    Cbc_setParameter(model.get(), "allowableGap", "1e-7");
    Cbc_solve(model.get());
    const double bound = Cbc_getBestPossibleObjValue(model.get());
    const auto outcome = [&](Outcome what) {
      return std::vector<double>{static_cast<double>(what), bound};
    };
    if (Cbc_isProvenInfeasible(model.get())) return outcome(Outcome::kInfeasible);
    const bool optimal = Cbc_isProvenOptimal(model.get());
    const double* solution =
        optimal ? Cbc_getColSolution(model.get()) : Cbc_bestSolution(model.get());
    if (!solution) return outcome(Outcome::kStopped);
    std::vector<double> numbers = outcome(optimal ? Outcome::kOptimal : Outcome::kFound);
    for (const std::vector<int>& node : chosen_) {
      int best = -1;
      for (std::size_t s = 0; s < node.size(); ++s) {
        if (node[s] >= 0 && (best < 0 || solution[node[s]] > solution[node[best]])) {
          best = static_cast<int>(s);
        }
      }
      numbers.push_back(best);
    }
    return numbers;
  }

  void load(Cbc_Model* model) const {
    const int columns = static_cast<int>(program_.objective.size());
    const int rows = static_cast<int>(program_.lower.size());
    // The library wants the matrix by columns.
    std::vector<int> first(columns + 1, 0), index(program_.column.size());
    std::vector<double> value(program_.column.size());
    for (int c : program_.column) ++first[c + 1];
    for (int c = 0; c < columns; ++c) first[c + 1] += first[c];
    std::vector<int> next(first.begin(), first.end() - 1);
    for (int r = 0; r < rows; ++r) {
      for (int q = program_.start[r]; q < program_.start[r + 1]; ++q) {
        const int at = next[program_.column[q]]++;
        index[at] = r;
        value[at] = program_.value[q];
      }
    }
    const std::vector<double> low(columns, 0), high(columns, 1);
    Cbc_loadProblem(model, columns, rows, first.data(), index.data(), value.data(), low.data(),
                    high.data(), program_.objective.data(), program_.lower.data(),
                    program_.upper.data());
    for (int c = 0; c < columns; ++c) {
      if (program_.integer[c]) Cbc_setInteger(model, c);
    }
  }

  const Problem& problem_;
  MipOptions options_;
  Clock::time_point begin_;
  Program program_;
  std::vector<std::vector<int>> chosen_;  // the column of each strategy, or -1
  std::vector<std::int64_t> times_;
  std::vector<char> has_row_;
};

}  // namespace

Solution solve_mip(const Problem& problem, const MipOptions& options) {
  validate(problem);
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const std::vector<std::int64_t>& costs = problem.nodes[i].costs;
    if (*std::min_element(costs.begin(), costs.end()) >= kForbidden) {
      Solution result;
      result.proven = true;
      result.reason = fmt::format("every strategy of node {} is forbidden", i);
      return result;
    }
  }
  return MipSolve(problem, options).run();
}

}  // namespace cleave::solver
