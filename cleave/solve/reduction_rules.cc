// The rules of the reduction, one function each.
#include <algorithm>
#include <limits>

#include "cleave/solve/reduction.h"
#include "cleave/solve/timeline.h"

namespace cleave::solver {
namespace {

constexpr int kDominanceSize = 512;       // nodes with more strategies are not compared pairwise
constexpr std::size_t kFillSize = 40000;  // largest table that eliminating a node may create

}  // namespace

bool Reduction::filter_infinite(int node) {
  const int k = size(node);
  std::vector<char> keep(k, 1);
  bool changed = false;
  for (int s = 0; s < k; ++s) {
    bool allowed = nodes_[node].cost[s] < kInfinite;
    for (std::size_t q = 0; allowed && q < nodes_[node].edges.size(); ++q) {
      const int e = nodes_[node].edges[q];
      const int kt = size(other(e, node));
      bool any = false;
      for (int t = 0; t < kt && !any; ++t) any = edge_cost(e, node, s, t) < kInfinite;
      work_ += 2;
      allowed = any;
    }
    if (!allowed) {
      keep[s] = 0;
      changed = true;
    }
  }
  if (changed) restrict(node, keep);
  return changed;
}

bool Reduction::fold_separable(int node) {
  bool changed = false;
  const std::vector<int> incident = nodes_[node].edges;
  for (int e : incident) {
    const ReducedEdge& edge = edges_[e];
    const std::size_t ka = size(edge.a), kb = size(edge.b);
    const std::int64_t corner = edge.cost[0];
    if (corner >= kInfinite) continue;
    bool separable = true;
    for (std::size_t s = 0; s < ka && separable; ++s) {
      const std::int64_t* row = &edge.cost[s * kb];
      separable = row[0] < kInfinite;
      for (std::size_t t = 0; t < kb && separable; ++t) {
        separable = row[t] == row[0] + edge.cost[t] - corner;
      }
      work_ += static_cast<double>(kb) * 0.5;
    }
    if (!separable) continue;
    for (std::size_t s = 0; s < ka; ++s) {
      std::int64_t& cost = nodes_[edge.a].cost[s];
      cost = add_cost(cost, edge.cost[s * kb] - corner);
    }
    for (std::size_t t = 0; t < kb; ++t) {
      std::int64_t& cost = nodes_[edge.b].cost[t];
      cost = add_cost(cost, edge.cost[t]);
    }
    push(edge.a);
    push(edge.b);
    remove_edge(e);
    changed = true;
  }
  return changed;
}

// Each strategy s of `node` leaves the other end a single one, image[s]: the two become one.
bool Reduction::merge_functional(int node) {
  bool changed = false;
  for (std::size_t q = 0; q < nodes_[node].edges.size();) {
    const int e = nodes_[node].edges[q];
    const int end = other(e, node);
    const int k = size(node), kt = size(end);
    std::vector<int> image(k, -1);
    bool functional = true;
    for (int s = 0; s < k && functional; ++s) {
      for (int t = 0; t < kt && functional; ++t) {
        if (edge_cost(e, node, s, t) >= kInfinite) continue;
        functional = image[s] < 0;
        image[s] = t;
      }
      work_ += 2;
      functional = functional && image[s] >= 0;
    }
    if (!functional) {
      ++q;
      continue;
    }
    merge_into(node, end, e, image);
    changed = true;
    q = 0;
  }
  return changed;
}

void Reduction::merge_into(int node, int gone, int edge, const std::vector<int>& image) {
  const int k = size(node);
  ReducedNode& target = nodes_[node];
  ReducedNode& source = nodes_[gone];
  for (int s = 0; s < k; ++s) {
    target.cost[s] = add_cost(target.cost[s],
                              add_cost(source.cost[image[s]], edge_cost(edge, node, s, image[s])));
  }
  remove_edge(edge);
  const std::vector<int> incident = source.edges;
  for (int e : incident) {
    const int third = other(e, gone);
    const int kt = size(third);
    std::vector<std::int64_t> table(static_cast<std::size_t>(k) * kt);
    for (int s = 0; s < k; ++s) {
      for (int t = 0; t < kt; ++t) {
        table[static_cast<std::size_t>(s) * kt + t] = edge_cost(e, gone, image[s], t);
      }
    }
    work_ += static_cast<double>(table.size());
    remove_edge(e);
    add_edge(node, third, std::move(table));
    push(third);
  }
  for (Atom& atom : source.atoms) {
    auto same = std::find_if(target.atoms.begin(), target.atoms.end(), [&atom](const Atom& a) {
      return a.begin == atom.begin && a.end == atom.end;
    });
    if (same == target.atoms.end()) {
      target.atoms.push_back({atom.begin, atom.end, std::vector<std::int64_t>(k, 0)});
      same = target.atoms.end() - 1;
    }
    for (int s = 0; s < k; ++s) same->usage[s] += atom.usage[image[s]];
  }
  work_ += static_cast<double>(k) * source.atoms.size();
  Step step{gone, node, -1, std::vector<int>(original_size_[node], 0)};
  for (int s = 0; s < k; ++s) step.table[target.strategy[s]] = source.strategy[image[s]];
  trail_.push_back(std::move(step));
  source = ReducedNode{};
  source.gone = true;
  normalise(target);
  push(node);
}

namespace {

// The edges of one node as rows, one for each strategy: the costs beside all strategies of all
// neighbours, one edge after the other; and the same as columns, one for each of those.
struct EdgeRows {
  std::vector<std::int64_t> cost, columns;
  std::vector<int> ends;  // of each edge within a row
  int width = 0, height = 0;

  const std::int64_t* row(int s) const { return cost.data() + static_cast<std::size_t>(s) * width; }
  const std::int64_t* column(std::ptrdiff_t t) const { return columns.data() + t * height; }
};

// By how much `worse` costs more than `better` at least, over a stretch of two rows.
std::int64_t least_excess(const std::int64_t* worse, const std::int64_t* better, int begin,
                          int end) {
  std::int64_t least = kInfinite;
  for (int t = begin; t < end; ++t) {
    const std::int64_t excess = worse[t] >= kInfinite ? kInfinite : worse[t] - better[t];
    least = excess < least ? excess : least;
  }
  return least;
}

}  // namespace

// As std::min_element, which compilers leave to one comparison after the other.
const std::int64_t* first_least(const std::int64_t* begin, const std::int64_t* end) {
  std::int64_t least = *begin;
  for (const std::int64_t* at = begin; at != end; ++at) least = *at < least ? *at : least;
  return std::find(begin, end, least);
}

// Which strategies may dominate another one: those that do not lose beside the partners that are
// best for it. Most pairs are told apart by that, without a look at whole rows.
class Rivals {
 public:
  Rivals(const EdgeRows& rows, const std::vector<std::int64_t>& cost)
      : rows_(rows), cost_(cost), total_(cost.size()) {}

  void find(int worse, std::vector<char>& may) {
    const std::size_t k = cost_.size();
    const std::int64_t* row = rows_.row(worse);
    std::int64_t own = cost_[worse];
    for (std::size_t s = 0; s < k; ++s) total_[s] = std::min(cost_[s], kLost);
    int begin = 0;
    for (int end : rows_.ends) {
      const std::int64_t* best = first_least(row + begin, row + end);
      begin = end;
      if (*best >= kInfinite) {  // beside nobody: whoever is allowed so far may be better
        own = kLost;
        break;
      }
      own += *best;
      const std::int64_t* column = rows_.column(best - row);
      for (std::size_t s = 0; s < k; ++s) total_[s] = std::min(total_[s] + column[s], kLost);
    }
    for (std::size_t s = 0; s < k; ++s) may[s] = total_[s] < kLost && total_[s] <= own;
  }

 private:
  static constexpr std::int64_t kLost = kInfinite / 2;  // larger than any sum of allowed costs

  const EdgeRows& rows_;
  const std::vector<std::int64_t>& cost_;
  std::vector<std::int64_t> total_;
};

// Whether `better` can replace `worse` beside any strategies of the neighbours.
bool Reduction::filter_dominated(int node) {
  const int k = size(node);
  if (k < 2 || k > kDominanceSize) return false;
  const ReducedNode& v = nodes_[node];
  EdgeRows rows;
  rows.height = k;
  for (int e : v.edges) rows.ends.push_back(rows.width += size(other(e, node)));
  rows.cost.assign(static_cast<std::size_t>(k) * rows.width, 0);
  rows.columns = rows.cost;
  int begin = 0;
  for (std::size_t i = 0; i < v.edges.size(); begin = rows.ends[i++]) {
    const ReducedEdge& edge = edges_[v.edges[i]];
    const int kt = rows.ends[i] - begin;
    std::int64_t* to = rows.cost.data() + begin;
    std::int64_t* across = rows.columns.data() + static_cast<std::size_t>(begin) * k;
    if (edge.a == node) {
      for (int s = 0; s < k; ++s, to += rows.width) {
        const std::int64_t* row = &edge.cost[static_cast<std::size_t>(s) * kt];
        std::copy_n(row, kt, to);
        for (int t = 0; t < kt; ++t) across[static_cast<std::size_t>(t) * k + s] = row[t];
      }
    } else {
      std::copy(edge.cost.begin(), edge.cost.end(), across);
      for (int s = 0; s < k; ++s, to += rows.width)
        for (int t = 0; t < kt; ++t) to[t] = across[static_cast<std::size_t>(t) * k + s];
    }
  }
  work_ += 0.25 * static_cast<double>(rows.cost.size());
  Rivals rivals(rows, v.cost);
  const auto dominates = [&](int better, int worse) {
    std::int64_t slack = v.cost[worse] - v.cost[better];
    for (const Atom& atom : v.atoms) {
      if (atom.usage[better] > atom.usage[worse]) return false;
    }
    int from = 0;
    for (int end : rows.ends) {
      const std::int64_t least = least_excess(rows.row(worse), rows.row(better), from, end);
      work_ += 0.25 * (end - from);
      if (least < -kInfinite / 2) return false;  // better is forbidden there
      slack = std::min(kInfinite, slack + least);
      from = end;
    }
    return slack >= 0;
  };
  std::vector<char> keep(k, 1), may(k);
  bool changed = false;
  std::size_t pairs = 0;
  for (int worse = 0; worse < k; ++worse) {
    rivals.find(worse, may);
    for (int better = 0; better < k && keep[worse]; ++better) {
      if (better == worse || !keep[better]) continue;
      ++pairs;
      if (!may[better] || !dominates(better, worse)) continue;
      keep[worse] = 0;
      changed = true;
    }
  }
  work_ += static_cast<double>(pairs * v.edges.size());
  if (changed) restrict(node, keep);
  return changed;
}

// With a single neighbour, each of its strategies judges ours alone.
bool Reduction::filter_leaf_pairs(int node) {
  const ReducedNode& v = nodes_[node];
  const int k = size(node);
  if (v.edges.size() != 1 || k < 2 || k > kDominanceSize) return false;
  const int e = v.edges[0];
  const int kt = size(other(e, node));
  ReducedEdge& edge = edges_[e];
  const auto cell = [&](int s, int t) -> std::int64_t& {
    return edge.a == node ? edge.cost[static_cast<std::size_t>(s) * kt + t]
                          : edge.cost[static_cast<std::size_t>(t) * k + s];
  };
  std::vector<char> smaller(static_cast<std::size_t>(k) * k, 1);  // never more memory than
  for (int s = 0; s < k; ++s) {
    for (int d = 0; d < k; ++d) {
      for (const Atom& atom : v.atoms) {
        if (atom.usage[d] > atom.usage[s]) smaller[static_cast<std::size_t>(d) * k + s] = 0;
      }
    }
  }
  bool changed = false;
  for (int t = 0; t < kt; ++t) {
    for (int s = 0; s < k; ++s) {
      if (cell(s, t) >= kInfinite) continue;
      for (int d = 0; d < k; ++d) {
        if (d == s || cell(d, t) >= kInfinite || !smaller[static_cast<std::size_t>(d) * k + s])
          continue;
        if (v.cost[d] + cell(d, t) > v.cost[s] + cell(s, t)) continue;
        cell(s, t) = kInfinite;
        changed = true;
        break;
      }
    }
    work_ += static_cast<double>(k) * k;
  }
  if (changed) push(other(e, node));
  return changed;
}

namespace {

// best = min(best, row + first), and who made it.
void keep_least(const std::int64_t* row, std::int64_t first, std::int64_t who, int width,
                std::int64_t* best, std::int64_t* arg) {
  for (int t = 0; t < width; ++t) {
    const std::int64_t cost = row[t] + first;
    const bool less = cost < best[t];
    best[t] = less ? cost : best[t];
    arg[t] = less ? who : arg[t];
  }
}

}  // namespace

// The table of an edge with a row for each strategy of `node`.
std::vector<std::int64_t> Reduction::rows_of(int edge, int node) const {
  const ReducedEdge& e = edges_[edge];
  if (e.a == node) return e.cost;
  const std::size_t ka = size(e.a), kb = size(e.b);
  std::vector<std::int64_t> rows(ka * kb);
  for (std::size_t s = 0; s < ka; ++s)
    for (std::size_t t = 0; t < kb; ++t) rows[t * ka + s] = e.cost[s * kb + t];
  return rows;
}

// A node without memory and with few neighbours is minimised out.
bool Reduction::eliminate(int node) {
  ReducedNode& v = nodes_[node];
  if (infeasible_ || v.gone || !v.atoms.empty() || v.edges.size() > 2) return false;
  const int k = size(node);
  Step step{node, -1, -1, {}};
  if (v.edges.empty()) {
    const auto best = std::min_element(v.cost.begin(), v.cost.end());
    if (*best >= kInfinite) {
      fail(kRuledOut);
      return false;
    }
    constant_ += *best;
    step.table = {v.strategy[best - v.cost.begin()]};
  } else {
    const int ea = v.edges[0];
    const int eb = v.edges.size() == 2 ? v.edges[1] : -1;
    const int a = other(ea, node);
    const int b = eb >= 0 ? other(eb, node) : -1;
    const int ka = size(a), kb = eb >= 0 ? size(b) : 1;
    if (eb >= 0 && static_cast<std::size_t>(ka) * kb > kFillSize) return false;
    step.a = a;
    step.b = b;
    const std::size_t width = eb >= 0 ? original_size_[b] : 1;
    step.table.assign(original_size_[a] * width, v.strategy[0]);
    std::vector<std::int64_t> table(static_cast<std::size_t>(ka) * kb, kInfinite);
    const std::vector<std::int64_t> second =
        eb >= 0 ? rows_of(eb, node) : std::vector<std::int64_t>(k, 0);
    std::vector<std::int64_t> arg(kb);
    for (int sa = 0; sa < ka; ++sa) {
      std::int64_t* best = &table[static_cast<std::size_t>(sa) * kb];
      std::fill(arg.begin(), arg.end(), 0);
      for (int s = 0; s < k; ++s) {
        const std::int64_t first = add_cost(v.cost[s], edge_cost(ea, node, s, sa));
        if (first < kInfinite)
          keep_least(&second[static_cast<std::size_t>(s) * kb], first, s, kb, best, arg.data());
      }
      for (int sb = 0; sb < kb; ++sb) {
        const std::size_t column = eb >= 0 ? nodes_[b].strategy[sb] : 0;
        step.table[nodes_[a].strategy[sa] * width + column] = v.strategy[arg[sb]];
      }
    }
    work_ += static_cast<double>(table.size()) * k;
    remove_edge(ea);
    if (eb >= 0) {
      remove_edge(eb);
      add_edge(a, b, std::move(table));
      push(b);
    } else {
      for (int s = 0; s < ka; ++s) nodes_[a].cost[s] = add_cost(nodes_[a].cost[s], table[s]);
    }
    push(a);
  }
  trail_.push_back(std::move(step));
  v = ReducedNode{};
  v.gone = true;
  return true;
}

// A strategy that does not fit even when everyone else takes least goes. So does the whole problem
// when the least of everyone does not fit.
bool Reduction::filter_memory() {
  if (!has_limit_ || base_.empty()) return false;
  for (std::size_t t = 0; t < base_.size(); ++t) {
    if (base_[t] > limit_) {
      fail("what the allowed strategies use at least exceeds the limit");
      return false;
    }
  }
  // Sparse table of range maxima over the base; recomputed in each round.
  std::vector<std::vector<std::int64_t>> most{base_};
  for (std::size_t width = 1; 2 * width <= base_.size(); width *= 2) {
    const std::vector<std::int64_t>& last = most.back();
    std::vector<std::int64_t> next(base_.size() - 2 * width + 1);
    for (std::size_t t = 0; t < next.size(); ++t) next[t] = std::max(last[t], last[t + width]);
    most.push_back(std::move(next));
  }
  work_ += static_cast<double>(base_.size()) * most.size();
  const auto range_most = [&most](int begin, int end) {
    const int level = 31 - __builtin_clz(static_cast<unsigned>(end - begin));
    return std::max(most[level][begin], most[level][end - (1 << level)]);
  };
  bool changed = false;
  for (int i = 0; i < n_ && !infeasible_; ++i) {
    if (nodes_[i].gone || nodes_[i].atoms.empty()) continue;
    std::vector<char> keep(size(i), 1);
    bool drop = false;
    for (const Atom& atom : nodes_[i].atoms) {
      const std::int64_t room = limit_ - range_most(atom.begin, atom.end);
      for (int s = 0; s < size(i); ++s) {
        if (atom.usage[s] > room) {
          keep[s] = 0;
          drop = true;
        }
      }
    }
    if (drop) restrict(i, keep);
    changed = changed || drop;
  }
  return changed && !infeasible_;
}

// True when some node lost memory, so that other rules may apply to it.
bool Reduction::prune_times(const std::function<bool()>& expired) {
  if (infeasible_ || base_.empty()) return false;
  std::vector<TimedUsage> usages;
  std::vector<int> sizes(n_);
  for (int i = 0; i < n_; ++i) {
    sizes[i] = size(i);
    for (const Atom& atom : nodes_[i].atoms)
      usages.push_back({i, atom.begin, atom.end, atom.usage});
  }
  const std::vector<char> kept = binding_times(base_, limit_, usages, sizes, expired);
  work_ += 100.0 * static_cast<double>(kept.size());
  std::vector<int> place(kept.size() + 1, 0);
  for (std::size_t t = 0; t < kept.size(); ++t) {
    place[t + 1] = place[t] + kept[t];
    base_[place[t]] = base_[t];
    time_names_[place[t]] = time_names_[t];
  }
  if (place.back() == static_cast<int>(kept.size())) return false;
  base_.resize(place.back());
  time_names_.resize(place.back());
  bool changed = false;
  for (int i = 0; i < n_; ++i) {
    std::vector<Atom> merged;
    for (Atom& atom : nodes_[i].atoms) {
      atom.begin = place[atom.begin];
      atom.end = place[atom.end];
      if (atom.begin == atom.end) continue;
      const auto same = std::find_if(merged.begin(), merged.end(), [&atom](const Atom& a) {
        return a.begin == atom.begin && a.end == atom.end;
      });
      if (same == merged.end()) {
        merged.push_back(std::move(atom));
      } else {
        for (int s = 0; s < size(i); ++s) same->usage[s] += atom.usage[s];
      }
    }
    if (merged.size() == nodes_[i].atoms.size()) {
      nodes_[i].atoms.swap(merged);
      continue;
    }
    nodes_[i].atoms.swap(merged);
    normalise(nodes_[i]);
    push(i);
    changed = true;
  }
  return changed;
}

}  // namespace cleave::solver
