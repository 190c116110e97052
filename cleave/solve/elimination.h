#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "cleave/solve/model.h"
#include "cleave/solve/random.h"

namespace cleave::solver {

// For each node of a set the strategies that it may take, the present one among them:
// list[first[v]] ... list[first[v + 1] - 1] for the v-th.
struct Domains {
  std::vector<int> first, list;
};

// Solves a set of nodes together, the rest held fixed, by eliminating one after the other (a
// minimum over its strategies gives a table over its neighbours). If the tables would grow beyond
// 2^width entries, some nodes of the set are held at their present strategies instead, chosen at
// random among the well connected: a cutset.
//
//   a - b - c   with all free and any width: the optimum of the chain
//
// Memory is not looked at; prices on it come in through the node costs.
template <class Real>
class Elimination {
 public:
  explicit Elimination(const Model& model);

  // Improves x on `free`; `cost` is laid out as Model::cost. The cost of x never rises (but for
  // rounding). `noise` > 0 varies the order of elimination.
  // `domains`: fewer strategies make smaller tables, so that fewer nodes are held.
  // Returns the number of nodes that were not held.
  int run(const std::vector<int>& free, const Real* cost, std::vector<int>& x, double width,
          double noise, Random& random, const Domains* domains = nullptr);

  // The optimum on `free`, or nothing: false when a table would outgrow 2^width entries or when
  // `expired` says that time is up.
  bool run_whole(const std::vector<int>& free, const Real* cost, std::vector<int>& x, double width,
                 const std::function<bool()>& expired);

  double work() const { return work_; }

 private:
  static constexpr int kScope = 20;  // variables in a table, at most

  struct Factor {
    std::vector<int> scope;  // local ids, outermost first; the last dimension is padded
    const Real* table = nullptr;
    Real* owned = nullptr;             // the same table if it may be added to
    const Real* transposed = nullptr;  // the same with the two dimensions swapped, if it exists
  };
  struct Variable {
    int node = 0;
    int k = 0;
    const int* domain = nullptr;  // its k strategies; null: all
    int pick = 0;                 // among them
    float log_size = 0;
    float weight = 0;  // log2 of the table that eliminating it takes
    float noise = 0;
    char state = 0;  // 0 held, 1 free, 2 eliminated
    int version = 0;
    std::vector<int> neighbours;
    std::vector<int> factors;
    Real* unary = nullptr;
  };
  // A factor as it enters a minimum: its offset follows from the scope's outer variables.
  struct Term {
    const Real* table = nullptr;
    bool inner = false;                // depends on the scope's last variable
    int depth = 0;                     // outer variables that fix the offset
    std::size_t strides[kScope] = {};  // one per outer variable
  };

  Real* allocate(std::size_t count);
  void reset_arena();
  void load(const std::vector<int>& free, const Real* cost, const std::vector<int>& x,
            const Domains* domains);
  void load_variable(int v, const Real* cost, const std::vector<int>& x);
  // The table of an arc of v, confined to the domains of both ends.
  const Real* confined(int v, int w, const Real* table);
  void prepare(const std::vector<int>& free, const Real* cost, const std::vector<int>& x,
               double noise, Random& random, const Domains* domains);
  // The next to eliminate, or -1.
  int next();
  bool too_wide(int v, double width) const {
    return variables_[v].weight > width || variables_[v].neighbours.size() >= kScope;
  }
  void weigh(int v);
  void enqueue(int v);
  void hold(int v);
  void hold_some(std::vector<int>& candidates);
  void eliminate(int v);
  int new_factor();
  void join(const std::vector<int>& scope, Real* table, std::size_t size);
  int dimension(const Factor& factor, std::size_t d) const;
  std::size_t stride_of(const Factor& factor, int v) const;
  // A copy with the dimensions in the given order; those missing from it are fixed by `start`.
  const Real* arranged(const Factor& factor, const std::vector<int>& order, const Real* start);
  void make_term(const Factor& factor, int v, const std::vector<int>& scope, Term& term);
  void minimise(int v, const std::vector<int>& scope, Real* out);
  void assign_backwards(std::vector<int>& x);

  const Model& model_;
  std::vector<int> local_;  // node -> local id, or -1
  std::vector<Variable> variables_;
  int count_ = 0;
  std::vector<Factor> factors_;
  std::size_t factor_count_ = 0;
  std::vector<std::pair<int, std::vector<int>>> eliminated_;  // variable, its factors then
  std::size_t eliminated_count_ = 0;
  struct Entry {
    float weight;
    int variable;
    int version;
    bool operator<(const Entry& o) const {
      return weight != o.weight ? weight > o.weight : variable > o.variable;
    }
  };
  std::priority_queue<Entry> order_;
  std::vector<AlignedVector<Real>> chunks_;
  std::size_t chunk_ = 0, used_ = 0;
  Random* random_ = nullptr;
  std::vector<AlignedVector<Real>> partial_;
  std::vector<Term> terms_;
  std::vector<const Real*> rows_;
  double work_ = 0;
};

// The optimum of a model without memory, when eliminating its nodes one after the other takes no
// table of more than 2^width entries (those that are minimised over included) and 2^(width + 5) of
// them together; else empty, as when `expired` says that time is up. Whether it does is found out
// first, from the sizes alone.
std::vector<int> eliminate_all(const Model& model, double width,
                               const std::function<bool()>& expired);

}  // namespace cleave::solver
