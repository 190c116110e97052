#pragma once

#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/copy.h"
#include "cleave/graph/graph.h"

namespace cleave {

// For values of a function that is read, their counterparts in the one that is written; both lie in
// one graph, which grows meanwhile.
class ValueTable {
 public:
  ValueId operator[](ValueId id) const {  // invalid where there is none
    return id.index < ids_.size() ? ids_[id.index] : ValueId{};
  }
  void set(ValueId from, ValueId to) {
    if (from.index >= ids_.size()) ids_.resize(from.index + 1);
    ids_[from.index] = to;
  }
  // The counterpart, or the value itself where there is none.
  ValueId map(ValueId id) const {
    const ValueId found = (*this)[id];
    return found.valid() ? found : id;
  }
  std::vector<ValueId> map(const std::vector<ValueId>& ids) const;

 private:
  std::vector<ValueId> ids_;
};

// A copy of a node, with its regions, at the end of `target`; results are entered in the table.
NodeId copy_within(Graph& graph, NodeId source, RegionId target, ValueTable& table);
// Arguments and nodes of a region into an empty one.
void copy_region_within(Graph& graph, RegionId source, RegionId target, ValueTable& table);

// Makes these arguments and nodes those of a region, taking them from where they were.
void adopt(Graph& graph, RegionId region, std::vector<ValueId> args, std::vector<NodeId> nodes);
// Replaces operands of a node, and of the nodes inside it.
void replace_operands(Graph& graph, NodeId node, const ValueTable& table);

// Ends a region with an op of this name ("stablehlo.return", "sdy.return").
void end_region(Graph& graph, RegionId region, std::string_view name, std::vector<ValueId> results);

bool is_differentiable(const Type& type);  // a tensor of floats or complex numbers

}  // namespace cleave
