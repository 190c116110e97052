#pragma once

#include <algorithm>
#include <optional>
#include <random>

#include "cleave/solve/problem.h"

namespace cleave::solver::test {

struct RandomShape {
  int nodes = 6;
  int strategies = 4;
  double density = 0.4;    // of edges
  double forbidden = 0.1;  // of table entries
  double tightness =
      0.5;  // of the limit, between the least and the most possible peak; < 0: no limit
  int horizon = 12;
  int cost_range = 100;
};

// The same problem for the same seed. Some are infeasible.
inline Problem random_problem(std::uint64_t seed, const RandomShape& shape) {
  std::mt19937_64 random(seed);
  const auto below = [&random](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  const auto chance = [&random](double p) {
    return static_cast<double>(random() % 100000) < p * 100000;
  };
  Problem problem;
  problem.name = "random";
  for (int i = 0; i < shape.nodes; ++i) {
    ProblemNode node;
    const int k = 1 + below(shape.strategies);
    node.live.lo = below(shape.horizon);
    node.live.hi = node.live.lo + below(shape.horizon / 2 + 1);
    for (int s = 0; s < k; ++s) {
      node.costs.push_back(chance(shape.forbidden / 3) ? kForbidden : below(shape.cost_range));
      node.usages.push_back(below(50));
    }
    problem.nodes.push_back(std::move(node));
  }
  for (int a = 0; a < shape.nodes; ++a) {
    for (int b = 0; b < shape.nodes; ++b) {
      if (a == b || !chance(shape.density / 2)) continue;
      ProblemEdge edge{a, b, {}};
      const std::size_t size = problem.nodes[a].costs.size() * problem.nodes[b].costs.size();
      const bool equality = problem.nodes[a].costs.size() == problem.nodes[b].costs.size() &&
                            shape.forbidden > 0 && chance(0.2);
      for (std::size_t q = 0; q < size; ++q) {
        const std::size_t k = problem.nodes[b].costs.size();
        const bool barred = equality ? q / k != q % k : chance(shape.forbidden);
        edge.costs.push_back(barred ? kForbidden : below(shape.cost_range));
      }
      problem.edges.push_back(std::move(edge));
    }
  }
  if (shape.tightness >= 0) {
    std::int64_t least = 0, most = 0;
    for (int t = 0; t < 2 * shape.horizon; ++t) {
      std::int64_t low = 0, high = 0;
      for (const ProblemNode& node : problem.nodes) {
        if (t < node.live.lo || t >= node.live.hi) continue;
        low += *std::min_element(node.usages.begin(), node.usages.end());
        high += *std::max_element(node.usages.begin(), node.usages.end());
      }
      least = std::max(least, low);
      most = std::max(most, high);
    }
    problem.usage_limit =
        least + static_cast<std::int64_t>(shape.tightness * static_cast<double>(most - least));
  }
  return problem;
}

// By trying everything.
inline std::optional<Int128> brute_force(const Problem& problem) {
  std::vector<int> choice(problem.nodes.size(), 0);
  std::optional<Int128> best;
  while (true) {
    const Evaluation e = evaluate(problem, choice);
    if (e.feasible() && (!best || e.cost < *best)) best = e.cost;
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == static_cast<int>(problem.nodes[i].costs.size()))
      choice[i++] = 0;
    if (i == choice.size()) return best;
  }
}

}  // namespace cleave::solver::test
