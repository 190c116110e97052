#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/rules/propagate/propagation.h"

namespace cleave {

// One link of the chain from a sharding back to the annotation that caused it: `axis` came to
// dimension `dim` of `slot` by change number `change`, from dimension `source_dim` of `source`. The
// last link has no source: the annotation was there from the start, or came at its priority.
struct CauseLink {
  int32_t slot;
  int dim;
  AxisRef axis;
  int32_t change = -1;  // -1: there from the start
  int32_t source = PropagationTables::kNoSlot;
  int source_dim = -1;
  int factor = -1;  // of the op's rule
};

// Answers questions about a finished propagation from the list of its changes.
class Explainer {
 public:
  // `names` are the names of values in the text, by ValueId.
  Explainer(const PropagationEngine& engine, std::vector<std::string> names);

  // The chain for one axis of one dimension of a slot, newest link first.
  std::vector<CauseLink> chain(int32_t slot, int dim, const AxisRef& axis) const;
  // Why this value has its sharding: the chain of every axis, as text.
  //
  //   %2: [{"a", ?}, {"b", ?}]
  //     dimension 0, "a"
  //       from %0 dimension 0 through stablehlo.dot_general (factor i)
  //       from %arg0 dimension 0 through stablehlo.add (factor i)
  //       %arg0 was annotated [{"a"}, {}]
  std::string explain(ValueId value) const;
  // What was given, every change in order (what changed, through which op, from where), and how
  // much it took.
  std::string trace() const;
  // Ops without a rule although something next to them is sharded, and conflicts: an op whose
  // operands and results are sharded in different ways along one factor, with the annotations that
  // wanted them.
  std::vector<std::string> warnings() const;

 private:
  void warn_of_missing_rules(std::vector<std::string>& found) const;
  void warn_of_conflicts(int32_t op, Projection& projection, std::vector<std::string>& found) const;
  int32_t spec_before(int32_t slot, int32_t change) const;
  CauseLink link(int32_t slot, int dim, const AxisRef& axis, int32_t before_change) const;
  void find_source(CauseLink& link) const;
  std::string name_of(int32_t slot) const;
  std::string op_text(int32_t op) const;
  std::string annotation(const CauseLink& last) const;
  std::string origin(int32_t slot, int dim, const AxisRef& axis) const;

  const PropagationEngine& engine_;
  std::vector<std::string> names_;
  std::vector<std::vector<int32_t>> changes_of_;  // by slot
};

}  // namespace cleave
