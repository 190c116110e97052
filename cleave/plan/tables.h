#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cleave/plan/formulation.h"
#include "cleave/solve/problem.h"

namespace cleave::plan {

// Costs of Problems are whole numbers of this many seconds.
inline constexpr double kCostUnit = 1e-11;

// Decisions that are made together: by decision, the number of its class. Class members have the
// same choices; the class of decision 0 is 0.
struct Classes {
  std::vector<int> of;
  int count = 0;
};
Classes every_decision_apart(const Formulation& formulation);
// Decisions that look alike from nearby: the same ops on the same types, with the same choices,
// next to decisions that look alike, `rounds` steps far. The middle layers of a deep model are
// alike; the first and the last are themselves. Compared in full, not by hash.
Classes tie_alike(const Formulation& formulation, int rounds = 1);

// How much of a reshard counts, by what it takes (ReshardPrice): all that it takes alone, unless
// something else is said.
struct ReshardWeights {
  double seconds = 1;
  double local = 0, inside = 0, across = 0;

  double of(const ReshardPrice& price) const {
    return seconds * price.seconds + local * price.local + inside * price.inside +
           across * price.across;
  }
  ReshardWeights& operator+=(const ReshardWeights& other) {
    seconds += other.seconds;
    local += other.local;
    inside += other.inside;
    across += other.across;
    return *this;
  }
  friend ReshardWeights operator*(double count, const ReshardWeights& weights) {
    return {count * weights.seconds, count * weights.local, count * weights.inside,
            count * weights.across};
  }
};

// How much everything counts in a Problem, in place of once: made by Tables::weigh, for its Tables
// alone.
struct TableWeights {
  std::vector<std::vector<double>> unary;          // seconds by class and choice
  std::vector<std::vector<ReshardWeights>> parts;  // by edge
  // Of one choice by class, reshards count as they are weighed. Others do so only as far as they
  // save no more than this, by edge and part; a reshard saves what it counts for less than it takes
  // alone. Empty: all count as they are weighed.
  std::vector<int> like = {};
  std::vector<std::vector<double>> savings = {};
};

// A choice by decision whose reshards count as they are weighed. Any other reshard for a demand
// saves at most this share of what that of the choice saves.
struct Likeness {
  const std::vector<int>& choice;
  const std::vector<double>& share;  // by demand
};

// Choices that are looked at, by class and in order, if not all of them are.
using KeptChoices = std::vector<std::vector<int>>;

struct TableOptions {
  int threads = 1;
  // Asked now and then; once it says yes, the tables stay incomplete, and of all that follows only
  // `weak_bound` may be asked.
  std::function<bool()> stop = {};
};

// The Problem of a formulation. Memory is looked at only at the times that are asked for; the
// solver's caller checks all times and asks for more.
class Tables {
 public:
  Tables(const Formulation& formulation, Layouts& layouts, Classes classes,
         const TableOptions& options = {});

  bool is_complete() const { return is_complete_; }
  // Seconds that every choice takes at least: each decision at its cheapest, changes of layout
  // for nothing.
  double weak_bound() const;

  // Nodes 0 .. classes - 1 are the classes; more follow that carry memory alone. Without weights,
  // everything counts once. With `kept`, strategies are those that are kept.
  solver::Problem problem(const std::vector<int>& times, std::optional<int64_t> limit,
                          const TableWeights* weights = nullptr,
                          const KeptChoices* kept = nullptr) const;

  const Classes& classes() const { return classes_; }
  // By decision, from a choice by class; and back.
  std::vector<int> spread(const std::vector<int>& choice) const;
  std::vector<int> by_class(const std::vector<int>& choice) const;
  // The classes in which two choices by class differ, in parts that share no edge: from either
  // choice, any of the parts can be taken over into the other. The largest part comes first.
  std::vector<std::vector<int>> differences(const std::vector<int>& a,
                                            const std::vector<int>& b) const;

  // Bytes of one device at every position under a choice by decision: values, shared copies, and at
  // every op the copies that are made of its operands for it alone.
  std::vector<int64_t> memory(const std::vector<int>& choice) const;
  // The highest of them under a choice that differs little from another one, of which
  // `memory_changes` is known: from position to position, what is held more.
  std::vector<int64_t> memory_changes(const std::vector<int>& choice) const;
  int64_t peak_beside(const std::vector<int>& choice, const std::vector<int>& other,
                      std::vector<int64_t> changes) const;
  // At every position, the sum of the least that each class can take there.
  std::vector<int64_t> least_memory() const;
  // Reshards count by demand, and ops by op (empty: once each).
  TableWeights weigh(const std::vector<ReshardWeights>& by_demand,
                     const std::vector<double>& by_op = {}) const;
  // The same for one choice, with limits for others.
  TableWeights weigh(const std::vector<ReshardWeights>& by_demand, const Likeness& likeness) const;
  // Seconds of ops that every choice takes at least: each decision at its cheapest, changes of
  // layout for nothing. Ops count by op (empty: once each).
  double least_compute(const std::vector<double>& by_op = {}) const;

  // The same with each decision at its dearest.
  double most_compute() const;

  // Exact seconds of a choice by decision; with weights, as they count.
  double seconds(const std::vector<int>& choice) const;
  double seconds(const std::vector<int>& choice, const TableWeights& weights) const;

  size_t num_strategies() const;
  size_t num_edges() const { return edges_.size(); }

 private:
  // Seconds from each layout of a list to each of another.
  struct Reshards {
    ListId from, to;
    int version;  // one of those that it is for
    int copy;     // a version that is either the source itself or something else; -1: none
    // By choice of `from`: what is paid beside, because the value was in no memory; empty: nothing.
    std::vector<double> spills;
    std::vector<ReshardPrice> prices;
  };
  // Edges are kept as what they are sums of: layers that are alike add the same again and again.
  struct Part {
    int reshards;
    bool swapped;
    ReshardWeights weights;  // by times
  };
  struct Edge {
    int a, b;
    std::vector<Part> parts;
  };

  void number_types();
  void add_ops(const std::vector<double>& by_op, std::vector<std::vector<double>>& unary) const;
  void add_demands();
  int reshards(const Demand& demand);  // by number; not priced yet
  void price();
  void check_countable() const;
  void add_bytes();
  const ReshardPrice& price(size_t edge, size_t part, const std::vector<int>& choice) const;
  void fill(size_t edge, const TableWeights* weights, const KeptChoices* kept,
            std::vector<int64_t>& costs) const;
  std::vector<int64_t> bytes(int version) const;       // by choice
  std::vector<int64_t> tie_breaks(ListId list) const;  // in units
  void add_tie_breaks();
  // What an op holds beside an operand that it wants in another layout: the copy, in the place of
  // the operand if that ends here.
  int64_t temporary(const Demand& demand, SpecId from, SpecId to) const;
  // Nodes that carry the temporaries of one position, tied to the choices that they follow from.
  void add_temporaries(int position, int64_t time, const KeptChoices* kept,
                       solver::Problem& problem) const;
  void add_memory(const std::vector<int>& times, const KeptChoices* kept,
                  solver::Problem& problem) const;
  // By class and choice: bytes at one time.
  std::map<int, std::vector<int64_t>> usages_at(int time) const;
  // What is held in any case and what may be, for `memory`.
  void list_held();
  void list_by_decision();

  const Formulation& formulation_;
  Layouts& layouts_;
  Classes classes_;
  TableOptions options_;
  bool is_complete_ = true;
  std::vector<int> counts_;                     // choices by class
  std::vector<std::vector<double>> unary_;      // seconds by class and choice
  std::vector<std::vector<double>> unary_ops_;  // of which ops
  std::vector<std::vector<int64_t>> ties_;      // units by class and choice that break ties
  std::vector<Edge> edges_;
  std::unordered_map<uint64_t, size_t> edge_of_;
  std::vector<Reshards> reshards_;
  std::map<std::tuple<uint64_t, double>, int> reshards_of_;  // by lists and type, by spill
  struct UnaryPart {
    int to;  // a class
    int reshards;
    size_t step;  // between the entries that count
    ReshardWeights weights;
  };
  void add_reshards(const UnaryPart& part, const ReshardWeights& weights,
                    std::vector<std::vector<double>>& unary) const;
  std::vector<UnaryPart> unary_parts_;
  // By demand: where its times are counted, in a part of an edge or among those of one class.
  struct Place {
    int edge = -1;
    int part = -1;  // -1: nowhere
  };
  std::vector<Place> places_;
  std::vector<int> type_of_;                      // by version; equal types, equal numbers
  std::vector<std::vector<int64_t>> byte_lists_;  // by choice
  std::vector<int> bytes_of_;                     // by version: which of those
  // What takes memory, close together: it is asked for dozens of choices.
  struct Held {
    const int64_t* bytes;  // by choice
    int decision, first, last;
  };
  struct Copied {
    const SpecId *from, *to;  // by choices of two decisions
    int from_decision, to_decision;
    int demand;
  };
  void hold(const Held& held, const std::vector<int>& choice, int64_t times,
            std::vector<int64_t>& changes) const;
  void hold(const Copied& copied, const std::vector<int>& choice, int64_t times,
            std::vector<int64_t>& changes) const;
  std::vector<Held> held_;      // versions
  std::vector<Copied> copied_;  // operands that an op may want otherwise than they lie
  // By decision: which of those it decides on.
  std::vector<std::vector<int>> held_of_, copied_of_;
  std::vector<int64_t> fixed_change_;  // by position: what ops with layouts of their own hold
};

}  // namespace cleave::plan
