#pragma once

#include <unordered_map>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Many edits of a graph, applied at once in time linear in its size. New nodes are created in the
// graph right away; where they stand, which uses move and which nodes go is collected here.
class GraphRewrite {
 public:
  explicit GraphRewrite(Graph& graph) : graph_(graph) {}

  // Several nodes inserted at one place stand in the order of the calls.
  void insert_before(NodeId position, NodeId node);
  void insert_after(NodeId position, NodeId node);
  void insert_at_start(RegionId region, NodeId node);
  void append(RegionId region, NodeId node) { appended_[region.index].push_back(node); }
  void erase(NodeId node);
  // Every use of `from` becomes one of `to`, but not those by `except`. Chains are followed: if a
  // -> b and b -> c are both asked for, uses of a become uses of c.
  void replace_uses(ValueId from, ValueId to, NodeId except = {});

  void apply();                 // to all functions
  void apply(RegionId region);  // if all edits are inside this region

 private:
  using Lists = std::unordered_map<uint32_t, std::vector<NodeId>>;
  void rebuild(RegionId region);
  ValueId target(ValueId value, NodeId user) const;

  Graph& graph_;
  Lists before_, after_, start_, appended_;
  std::vector<uint8_t> erased_;
  struct Replacement {
    ValueId to;
    NodeId except;
  };
  std::unordered_map<uint32_t, Replacement> replaced_;
};

// A copy of a region in the same graph, without an owner yet. Values from outside are used by both.
RegionId clone_region(Graph& graph, RegionId region);

}  // namespace cleave
