#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/graph/value_map.h"

namespace cleave {

// Copies nodes and regions, and inlines bodies: the only code that does. Names and locations are
// kept, and every value that is copied is entered in the map.
//
//   Cloner clone(from, to);                  // a used value must have been copied or mapped before
//   Cloner clone(graph);                     // within one graph: other values stand for themselves
//   clone.map(argument, operand);            // a value that stands for another
//   clone.region(body, target);              // arguments and nodes into an empty region
//
// Hooks change what a copy is:
//
//   clone.rewrite = [&](NodeId node, RegionId target) {
//     if (!is<op::NamedComputation>(from.node(node))) return false;   // copy it as it is
//     clone.inline_region(node, from.node(node).regions[0], target);
//     return true;                                                    // it is written
//   };
class Cloner {
 public:
  Cloner(const Graph& from, Graph& to, ValueMap values = {})
      : from_(from), to_(to), own_(std::move(values)), values_(own_) {}
  explicit Cloner(Graph& graph, ValueMap values = {}) : Cloner(graph, graph, std::move(values)) {}
  // With a map of the caller, which outlives it.
  Cloner(const Graph& from, Graph& to, ValueMap* values) : from_(from), to_(to), values_(*values) {}
  Cloner(Graph& graph, ValueMap* values) : Cloner(graph, graph, values) {}
  Cloner(const Cloner&) = delete;
  Cloner& operator=(const Cloner&) = delete;

  // Asked for every node before it is copied; true: it has written the node itself, and has mapped
  // its results.
  std::function<bool(NodeId node, RegionId target)> rewrite;
  // Called for every node that was copied, after what is inside it.
  std::function<void(NodeId from, NodeId to)> copied;
  // The type of the copy of a value; null: the same.
  std::function<Type(ValueId from)> type;

  ValueMap& values() { return values_; }
  void map(ValueId from, ValueId to) { values_.set(from, to); }
  void map(std::span<const ValueId> from, std::span<const ValueId> to) { values_.set(from, to); }
  // What stands for a value. Between graphs one that was not copied is an InternalError; within a
  // graph it stands for itself.
  ValueId mapped(ValueId value) const;
  std::vector<ValueId> mapped(const std::vector<ValueId>& values) const;

  void node(NodeId source, RegionId target);     // at the end of a region
  void nodes(RegionId source, RegionId target);  // all but the terminator
  void arguments(RegionId source, RegionId target);
  void region(RegionId source, RegionId target);  // arguments, nodes and terminator
  void function(const Function& source);          // with its body, if it has one
  std::vector<ValueId> returned(
      RegionId source) const;  // what stands for the terminator's operands

  // A node for which `rewrite` is not asked, but it is for nodes inside.
  NodeId copy(NodeId source, RegionId target);
  NodeId detached(NodeId source);  // in no region yet
  NodeId shell(NodeId source);     // in no region yet, and without what is inside

  // Writes the nodes of a body with these values for its arguments; gives what it returns.
  std::vector<ValueId> inline_body(RegionId body, std::span<const ValueId> args, RegionId target);
  // Writes a body, which is a region of the node or its callee's, in place of a node: operands are
  // its arguments, and what it returns stands for the results.
  void inline_region(NodeId node, RegionId body, RegionId target);

 private:
  Type type_of(ValueId value) const { return type ? type(value) : from_.type(value); }

  const Graph& from_;
  Graph& to_;
  ValueMap own_;
  ValueMap& values_;
};

}  // namespace cleave
