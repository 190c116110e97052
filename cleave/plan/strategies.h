#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/plan/layouts.h"

namespace cleave::plan {

// One way to run one op: what partition_op gives for these operands, and what it takes.
struct Strategy {
  std::vector<SpecId> operands;
  std::vector<SpecId> results;
  double seconds = 0;
  bool operator==(const Strategy&) const = default;
};

// The strategies of all ops that are the same but for their operands' values. Never empty; the
// first one runs whole on every device.
struct StrategySet {
  std::vector<Strategy> list;
  // Strategies by the layout of one tensor (operands, then results); the cheapest first.
  int find(size_t tensor, SpecId spec) const;  // -1 if there is none
};

// Enumerates and prices strategies; the same op on the same types is done once.
//
// Every mesh axis goes to a factor that can run sharded, or to none, or carries a pending sum of
// the operands to the results if the op is linear. Not enumerated: factors that would need
// elements of neighbours (halos), and splits that waste more than a quarter.
// Left out as dominated: running along fewer axes if splitting one more factor and undoing
// it on operands and results costs no more and holds no more.
class StrategyBook {
 public:
  StrategyBook(const Graph& graph, Layouts& layouts);
  ~StrategyBook();

  // The number of an op: one for all that share strategies. `trivial[i]`: operand i is computed
  // from constants and scalars alone.
  int number(NodeId node, const std::vector<bool>& trivial);
  // Does the most part of the work for all numbers so far, on several threads.
  void prepare(int threads);
  const StrategySet& strategies(int number);
  const StrategySet& strategies(NodeId node, const std::vector<bool>& trivial) {
    return strategies(number(node, trivial));
  }
  // The number of different ops so far.
  size_t size() const { return entries_.size(); }

 private:
  struct Entry;
  void draft(Entry& entry) const;
  void settle(Entry& entry);
  std::vector<bool> dominated(const Entry& entry);

  const Graph& graph_;
  Layouts& layouts_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::unordered_map<std::string, int> numbers_;
  std::string key_;
};

}  // namespace cleave::plan
