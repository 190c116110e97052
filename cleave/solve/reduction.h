#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "cleave/solve/problem.h"

namespace cleave::solver {

// Larger than any sum of allowed costs, small enough that two of them add up.
inline constexpr std::int64_t kInfinite = std::int64_t{1} << 61;

// Why there is no solution, when no single node or time shows it.
inline constexpr const char* kRuledOut =
    "forbidden pairs and the limit together rule out every strategy of one node";

inline std::int64_t add_cost(std::int64_t a, std::int64_t b) {
  return a >= kInfinite || b >= kInfinite ? kInfinite : a + b;
}

// Memory that a decision takes during [begin, end) of the compressed time axis, for each of its
// strategies, above what it takes in any case.
struct Atom {
  int begin = 0;
  int end = 0;
  std::vector<std::int64_t> usage;
};

// A decision that is left. It stands for the original node `root` and for every node merged into
// it.
struct ReducedNode {
  std::vector<int> strategy;       // the root's original strategies that are left
  std::vector<std::int64_t> cost;  // one per strategy that is left
  std::vector<Atom> atoms;
  std::vector<int> edges;  // ids of live edges
  bool gone = false;       // merged or eliminated
};

struct ReducedEdge {
  int a = 0;
  int b = 0;
  std::vector<std::int64_t> cost;  // [s_a * K_b + s_b]
  bool gone = false;
};

// Shrinks a problem without losing its optimum, and maps solutions back.
//
//   - strategies that no neighbour allows, or that cannot fit in memory, go;
//   - an edge on which each strategy of one end allows a single one of the other merges the two;
//   - an edge whose table is a sum of two vectors is folded into its ends;
//   - a strategy goes when another one is at least as cheap beside every neighbour's strategy and
//     needs no more memory at any time;
//   - on a node with one neighbour the same is asked for each strategy of that neighbour alone;
//   - a node without memory and with at most two neighbours is minimised out;
//   - times whose limit follows from that of another time go, and with them memory that is never
//     looked at.
//
// Every rule keeps at least one optimal solution, so they may be applied in any order and again
// after strategies have been removed from outside (`restrict`).
class Reduction {
 public:
  // Copies what it needs: `problem` may go.
  explicit Reduction(const Problem& problem);

  // Applies the rules until none applies, or until `expired` says that time is up: what is left
  // then is larger than need be, and as good. False: a proof that there is no solution.
  bool run(const std::function<bool()>& expired = {});

  // Keeps only the strategies (indices into `strategy`) with keep[s] != 0.
  void restrict(int node, const std::vector<char>& keep);
  // Forbids a pair on an edge.
  void forbid(int edge, int sa, int sb) {
    edges_[edge].cost[sa * size(edges_[edge].b) + sb] = kInfinite;
  }

  // The nodes that are left as a problem of its own, without the memory of how they came about;
  // `kept[i]` is set to the node behind its i-th. Its solutions are `picked` for our expand.
  Reduction compact(std::vector<int>& kept) const;

  bool infeasible() const { return infeasible_; }
  const std::string& reason() const { return reason_; }
  const std::vector<ReducedNode>& nodes() const { return nodes_; }
  const std::vector<ReducedEdge>& edges() const { return edges_; }
  Int128 constant() const { return constant_; }
  int cost_shift() const { return cost_shift_; }  // costs here are the problem's >> cost_shift
  bool has_limit() const { return has_limit_; }
  std::int64_t limit() const { return limit_; }
  const std::vector<std::int64_t>& base() const { return base_; }  // usage in any case, over time
  // Names of the times that are left; they stay the same through every reduction of a copy.
  const std::vector<int>& time_names() const { return time_names_; }
  double work() const { return work_; }
  // The least of every node and every edge for itself, in costs of the problem; costs are not
  // negative there. This bound is known at any time.
  Int128 weak_bound() const;

  // `picked[i]`: the index into nodes()[i].strategy for every node that is not gone.
  std::vector<int> expand(const std::vector<int>& picked) const;

 private:
  // How the strategy of a node that is gone follows from those of others (original indices).
  struct Step {
    int node = 0;
    int a = -1;
    int b = -1;
    std::vector<int> table;  // [s_a * K_b + s_b], [s_a] or [0]
  };

  Reduction() = default;
  void build_memory(const Problem& problem);
  void build_edges(const Problem& problem);
  int size(int node) const { return static_cast<int>(nodes_[node].cost.size()); }
  int other(int edge, int node) const {
    return edges_[edge].a == node ? edges_[edge].b : edges_[edge].a;
  }
  std::int64_t edge_cost(int edge, int node, int s, int t) const {
    const ReducedEdge& e = edges_[edge];
    return e.a == node ? e.cost[static_cast<std::size_t>(s) * size(e.b) + t]
                       : e.cost[static_cast<std::size_t>(t) * size(e.b) + s];
  }
  std::vector<std::int64_t> rows_of(int edge, int node) const;
  void push(int node);
  void push_neighbours(int node);
  void remove_edge(int edge);
  void add_edge(int a, int b, std::vector<std::int64_t> table);
  void normalise(ReducedNode& node);
  void fail(const std::string& why);

  bool filter_infinite(int node);
  bool fold_separable(int node);
  bool merge_functional(int node);
  bool filter_dominated(int node);
  bool filter_leaf_pairs(int node);
  bool eliminate(int node);
  bool filter_memory();
  bool prune_times(const std::function<bool()>& expired);
  void merge_into(int node, int gone, int edge, const std::vector<int>& image);

  int n_ = 0;
  std::vector<int> original_size_;
  std::vector<ReducedNode> nodes_;
  std::vector<ReducedEdge> edges_;
  std::unordered_map<std::uint64_t, int> edge_at_;
  std::vector<Step> trail_;
  std::deque<int> queue_;
  std::vector<char> queued_;
  Int128 constant_ = 0;
  int cost_shift_ = 0;
  bool has_limit_ = false;
  std::int64_t limit_ = 0;
  std::vector<std::int64_t> base_;
  std::vector<int> time_names_;
  bool infeasible_ = false;
  std::string reason_;
  double work_ = 0;
};

}  // namespace cleave::solver
