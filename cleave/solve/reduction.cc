#include "cleave/solve/reduction.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/solve/large_costs.h"

namespace cleave::solver {

Reduction::Reduction(const Problem& problem) : n_(static_cast<int>(problem.nodes.size())) {
  const Int128 total = sum_of_largest(problem);
  while ((total >> cost_shift_) >= kMostTotal) ++cost_shift_;

  nodes_.resize(n_);
  original_size_.resize(n_);
  for (int i = 0; i < n_; ++i) {
    const ProblemNode& node = problem.nodes[i];
    original_size_[i] = static_cast<int>(node.costs.size());
    nodes_[i].strategy.resize(node.costs.size());
    std::iota(nodes_[i].strategy.begin(), nodes_[i].strategy.end(), 0);
    nodes_[i].cost.resize(node.costs.size());
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      nodes_[i].cost[s] = node.costs[s] >= kForbidden ? kInfinite : node.costs[s] >> cost_shift_;
    }
  }
  build_edges(problem);
  build_memory(problem);
  queued_.assign(n_, 0);
  for (int i = 0; i < n_; ++i) push(i);
}

void Reduction::build_edges(const Problem& problem) {
  edge_at_.reserve(problem.edges.size());
  edges_.reserve(problem.edges.size());
  for (const ProblemEdge& edge : problem.edges) {
    std::vector<std::int64_t> table(edge.costs.size());
    for (std::size_t k = 0; k < table.size(); ++k) {
      table[k] = edge.costs[k] >= kForbidden ? kInfinite : edge.costs[k] >> cost_shift_;
    }
    work_ += static_cast<double>(table.size());
    if (edge.a == edge.b) {
      for (int s = 0; s < size(edge.a); ++s) {
        std::int64_t& cost = nodes_[edge.a].cost[s];
        cost = add_cost(cost, table[static_cast<std::size_t>(s) * size(edge.a) + s]);
      }
    } else {
      add_edge(edge.a, edge.b, std::move(table));
    }
  }
}

// The time axis shrinks to the stretches between events at which the limit can bind at all.
void Reduction::build_memory(const Problem& problem) {
  has_limit_ = problem.usage_limit.has_value();
  if (!has_limit_) return;
  const std::int64_t limit = *problem.usage_limit;
  std::vector<std::int64_t> times;
  std::int64_t unit = 0;
  for (const ProblemNode& node : problem.nodes) {
    if (node.live.lo == node.live.hi) continue;
    times.push_back(node.live.lo);
    times.push_back(node.live.hi);
    for (std::int64_t u : node.usages) unit = std::gcd(unit, u);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto index = [&times](std::int64_t t) {
    return static_cast<int>(std::lower_bound(times.begin(), times.end(), t) - times.begin());
  };
  if (unit == 0) unit = 1;
  limit_ = limit / unit;

  std::vector<Int128> most(times.size() + 1, 0);
  for (int i = 0; i < n_; ++i) {
    const ProblemNode& node = problem.nodes[i];
    if (node.live.lo == node.live.hi) continue;
    std::int64_t largest = 0;
    for (std::size_t s = 0; s < node.usages.size(); ++s) {
      if (node.usages[s] > limit) {
        nodes_[i].cost[s] = kInfinite;
      } else {
        largest = std::max(largest, node.usages[s] / unit);
      }
    }
    most[index(node.live.lo)] += largest;
    most[index(node.live.hi)] -= largest;
  }
  std::vector<int> kept(times.size() + 1, 0);
  Int128 usage = 0;
  for (std::size_t t = 0; t < times.size(); ++t) {
    usage += most[t];
    if (usage > kInfinite) {
      throw_user("problem: usages at time {} add up to more than can be counted", times[t]);
    }
    kept[t + 1] = kept[t] + (usage > limit_ ? 1 : 0);
  }
  base_.assign(kept[times.size()], 0);
  time_names_.resize(base_.size());
  std::iota(time_names_.begin(), time_names_.end(), 0);
  for (int i = 0; i < n_; ++i) {
    const ProblemNode& node = problem.nodes[i];
    if (node.live.lo == node.live.hi) continue;
    Atom atom{kept[index(node.live.lo)], kept[index(node.live.hi)], {}};
    if (atom.begin == atom.end) continue;
    for (std::int64_t u : node.usages) atom.usage.push_back(std::min(u, limit) / unit);
    nodes_[i].atoms.push_back(std::move(atom));
    normalise(nodes_[i]);
  }
}

// What a node takes in any case moves to the base; atoms that then take nothing go.
void Reduction::normalise(ReducedNode& node) {
  std::erase_if(node.atoms, [this](Atom& atom) {
    const auto [low, high] = std::minmax_element(atom.usage.begin(), atom.usage.end());
    const std::int64_t least = *low;
    const bool flat = least == *high;
    if (least != 0) {
      for (int t = atom.begin; t < atom.end; ++t) base_[t] += least;
      work_ += atom.end - atom.begin;
      for (std::int64_t& u : atom.usage) u -= least;
    }
    return flat;
  });
}

void Reduction::fail(const std::string& why) {
  if (!infeasible_) reason_ = why;
  infeasible_ = true;
}

void Reduction::push(int node) {
  if (queued_.empty() || queued_[node] || nodes_[node].gone) return;
  queued_[node] = 1;
  queue_.push_back(node);
}

void Reduction::push_neighbours(int node) {
  for (int e : nodes_[node].edges) push(other(e, node));
}

void Reduction::remove_edge(int edge) {
  ReducedEdge& e = edges_[edge];
  e.gone = true;
  std::vector<std::int64_t>().swap(e.cost);
  for (int end : {e.a, e.b}) {
    std::vector<int>& list = nodes_[end].edges;
    list.erase(std::find(list.begin(), list.end(), edge));
  }
  edge_at_.erase((static_cast<std::uint64_t>(std::min(e.a, e.b)) << 32) | std::max(e.a, e.b));
}

void Reduction::add_edge(int a, int b, std::vector<std::int64_t> table) {
  const std::uint64_t key = (static_cast<std::uint64_t>(std::min(a, b)) << 32) | std::max(a, b);
  const auto [found, fresh] = edge_at_.try_emplace(key, static_cast<int>(edges_.size()));
  if (fresh) {
    nodes_[a].edges.push_back(static_cast<int>(edges_.size()));
    nodes_[b].edges.push_back(static_cast<int>(edges_.size()));
    edges_.push_back({a, b, std::move(table), false});
    return;
  }
  ReducedEdge& edge = edges_[found->second];
  const std::size_t ka = size(edge.a), kb = size(edge.b);
  for (std::size_t s = 0; s < ka; ++s) {
    for (std::size_t t = 0; t < kb; ++t) {
      std::int64_t& cost = edge.cost[s * kb + t];
      cost = add_cost(cost, edge.a == a ? table[s * kb + t] : table[t * ka + s]);
    }
  }
}

void Reduction::restrict(int node, const std::vector<char>& keep) {
  ReducedNode& v = nodes_[node];
  const int k = size(node);
  std::vector<int> kept;
  for (int s = 0; s < k; ++s) {
    if (keep[s]) kept.push_back(s);
  }
  if (static_cast<int>(kept.size()) == k) return;
  if (kept.empty()) return fail(kRuledOut);
  for (int e : v.edges) {
    ReducedEdge& edge = edges_[e];
    const std::size_t ka = size(edge.a), kb = size(edge.b);
    std::vector<std::int64_t> table;
    if (edge.a == node) {
      table.reserve(kept.size() * kb);
      for (int s : kept) {
        table.insert(table.end(), edge.cost.begin() + s * kb, edge.cost.begin() + (s + 1) * kb);
      }
    } else {
      table.reserve(ka * kept.size());
      for (std::size_t s = 0; s < ka; ++s) {
        for (int t : kept) table.push_back(edge.cost[s * kb + t]);
      }
    }
    work_ += static_cast<double>(table.size());
    edge.cost.swap(table);
  }
  const auto compact = [&kept](auto& values) {
    for (std::size_t q = 0; q < kept.size(); ++q) values[q] = values[kept[q]];
    values.resize(kept.size());
  };
  compact(v.cost);
  compact(v.strategy);
  for (Atom& atom : v.atoms) compact(atom.usage);
  normalise(v);
  push(node);
  push_neighbours(node);
}

bool Reduction::run(const std::function<bool()>& expired) {
  do {
    while (!queue_.empty() && !infeasible_) {
      if (expired && expired()) return true;
      const int node = queue_.front();
      queue_.pop_front();
      queued_[node] = 0;
      if (nodes_[node].gone) continue;
      if (filter_infinite(node) && infeasible_) break;
      fold_separable(node);
      merge_functional(node);
      filter_dominated(node);
      if (filter_leaf_pairs(node)) push(node);
      eliminate(node);
    }
  } while (!infeasible_ && (filter_memory() || prune_times(expired)));
  return !infeasible_;
}

Int128 Reduction::weak_bound() const {
  Int128 bound = constant_;
  for (const ReducedNode& node : nodes_)
    if (!node.gone) bound += *std::min_element(node.cost.begin(), node.cost.end());
  for (const ReducedEdge& edge : edges_)
    if (!edge.gone) bound += *std::min_element(edge.cost.begin(), edge.cost.end());
  return std::max<Int128>(bound, 0) << cost_shift_;
}

Reduction Reduction::compact(std::vector<int>& kept) const {
  Reduction result;
  kept.clear();
  std::vector<int> index(n_, -1);
  for (int i = 0; i < n_; ++i) {
    if (nodes_[i].gone) continue;
    index[i] = static_cast<int>(kept.size());
    kept.push_back(i);
    ReducedNode node = nodes_[i];
    std::iota(node.strategy.begin(), node.strategy.end(), 0);
    node.edges.clear();
    result.original_size_.push_back(static_cast<int>(node.cost.size()));
    result.nodes_.push_back(std::move(node));
  }
  result.n_ = static_cast<int>(kept.size());
  for (const ReducedEdge& edge : edges_) {
    if (!edge.gone) result.add_edge(index[edge.a], index[edge.b], edge.cost);
  }
  result.queued_.assign(result.n_, 0);
  result.constant_ = constant_;
  result.cost_shift_ = cost_shift_;
  result.has_limit_ = has_limit_;
  result.limit_ = limit_;
  result.base_ = base_;
  result.time_names_ = time_names_;
  result.infeasible_ = infeasible_;
  result.reason_ = reason_;
  return result;
}

std::vector<int> Reduction::expand(const std::vector<int>& picked) const {
  std::vector<int> choice(n_, 0);
  for (int i = 0; i < n_; ++i) {
    if (!nodes_[i].gone) choice[i] = nodes_[i].strategy[picked[i]];
  }
  for (auto step = trail_.rbegin(); step != trail_.rend(); ++step) {
    std::size_t at = step->a >= 0 ? choice[step->a] : 0;
    if (step->b >= 0) at = at * original_size_[step->b] + choice[step->b];
    choice[step->node] = step->table[at];
  }
  return choice;
}

}  // namespace cleave::solver
