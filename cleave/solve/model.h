#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cleave/core/aligned.h"
#include "cleave/solve/lanes.h"
#include "cleave/solve/reduction.h"

namespace cleave::solver {

// Stands for "forbidden" in tables of reals: larger than any real cost, and harmless to add.
inline constexpr double kBig = 1e16;

// What is left of a problem after reduction, laid out for the inner loops: nodes in the order of
// the program, strategies padded to whole vectors, tables that occur several times stored once, the
// time axis shrunk to the times that have to be checked.
struct Model {
  // From a node to a neighbour. `table` is the offset of a table with one row for each strategy of
  // this node and one padded column for each strategy of the neighbour.
  struct Arc {
    int to = 0;
    int reverse = 0;  // the arc back
    std::size_t table = 0;
  };
  // Usage of strategy s during [begin, end) of the model's times: usage[at + s].
  struct Memory {
    int begin = 0;
    int end = 0;
    std::size_t at = 0;
  };

  int n = 0;
  std::vector<int> k;               // strategies
  std::vector<std::size_t> offset;  // of a node's padded row in arrays over strategies; n + 1
  AlignedVector<double> cost;       // padded with kBig
  std::vector<int> first_arc;       // n + 1
  std::vector<Arc> arcs;
  AlignedVector<double> tables;
  AlignedVector<float> tables_float;

  int times = 0;
  std::int64_t limit = 0;
  std::vector<std::int64_t> base;  // usage in any case, for each time
  std::vector<int> time_name;      // as in the reduction
  std::vector<int> first_memory;   // n + 1
  std::vector<Memory> memory;
  std::vector<std::int64_t> usage;

  double constant = 0;        // cost in any case
  std::vector<int> root;      // the reduction's node behind each of ours
  std::vector<int> strategy;  // of that node, by its numbers in the problem; laid out as `cost`
  double entries = 0;         // table entries over all edges: the size of one sweep

  int stride(int i) const { return static_cast<int>(offset[i + 1] - offset[i]); }
  std::size_t strategies() const { return offset[n]; }
  template <class Real>
  const Real* table(std::size_t at) const;

  double evaluate(const std::vector<int>& x) const;
  // Usage over time.
  void profile(const std::vector<int>& x, std::vector<std::int64_t>& out) const;
  // cost + prices * usage for every strategy; `prefix[t]` is the sum of the prices before time t.
  template <class Real>
  void price(const std::vector<double>& prefix, Real* out) const;
};

template <>
inline const double* Model::table<double>(std::size_t at) const {
  return tables.data() + at;
}
template <>
inline const float* Model::table<float>(std::size_t at) const {
  return tables_float.data() + at;
}

// Models with more nodes are worked on in floats, and so are those without memory that have more
// entries. Others have no tables of floats.
inline constexpr int kManyNodes = 1000;
inline constexpr double kManyEntries = 1e5;

// Single: a model has no tables of doubles. Messages of floats are all that works on it.
enum class Precision { Single, Both };

// `order[i]` sorts the reduction's nodes; equal keys keep their order. When `expired` says that
// time is up, more times are kept than need be.
Model build_model(const Reduction& reduction, const std::vector<std::int64_t>& order,
                  const std::function<bool()>& expired = {}, Precision precision = Precision::Both);

// For each node of the problem, the time at which it starts to live, or at which its neighbours do.
std::vector<std::int64_t> program_order(const Problem& problem);

// Strategy indices of the reduction's nodes from those of the model's.
std::vector<int> to_reduced(const Reduction& reduction, const Model& model,
                            const std::vector<int>& x);

// The other way round: from strategies of the problem's nodes. If a strategy is gone, the cheapest
// that is left takes its place. `choice` belongs to the problem behind the reduction.
std::vector<int> from_choice(const Reduction& reduction, const Model& model,
                             const std::vector<int>& choice);

// Prices by the names of the times, and back for another model of the same problem: a price whose
// time is gone moves to the next one that is left.
std::vector<double> prices_by_name(const Model& model, const std::vector<double>& prices);
std::vector<double> prices_for(const Model& model, const std::vector<double>& by_name);

}  // namespace cleave::solver
