#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/graph/attribute.h"
#include "cleave/graph/type.h"

namespace cleave {

struct OpDef;

// Indices into the tables of a Graph.
template <typename Tag>
struct Id {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t index = kNone;
  bool valid() const { return index != kNone; }
  auto operator<=>(const Id&) const = default;
};
using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
using RegionId = Id<struct RegionTag>;

// A result of a node, or an argument of a region.
struct Value {
  Type type;
  NodeId producer;     // invalid for region arguments
  RegionId region;     // of an argument: the region that it belongs to
  uint32_t index = 0;  // among the results or arguments
  std::string name;    // the name in the text without '%', a hint for messages; may be empty
};

// One op. `def` is what it is and everything known about it. It is never null in a graph: an op
// that nobody knows has an opaque definition (op_def.h).
struct Node {
  const OpDef* def = nullptr;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  AttrDict attrs;
  std::vector<RegionId> regions;
  RegionId parent;
  std::string location;  // the text of loc(...), empty if none

  const std::string& name() const;  // of the definition: "stablehlo.add"
};

// A region of one block: arguments, then nodes in order, the terminator last. May be empty.
struct Region {
  std::vector<ValueId> args;
  std::vector<NodeId> nodes;
  NodeId owner;  // invalid for the body of a function
};

// A function of the module. Shardings of arguments and results are attributes of them
// ("sdy.sharding").
struct Function {
  std::string name;
  std::string visibility;  // "", "public", "private"
  RegionId body;           // invalid for a declaration
  std::vector<Type> arg_types;
  std::vector<Type> result_types;
  std::vector<AttrDict> arg_attrs;     // one per argument
  std::vector<AttrDict> result_attrs;  // one per result
  AttrDict attrs;
  std::string location;
};

// A module: functions over shared tables of values, nodes and regions, so that an id is unique in
// the whole module and passes can cross calls. Ids stay valid while a pass edits; what no region
// lists is dead and not printed. References to values, nodes and regions are invalidated by adding
// more of them.
class Graph {
 public:
  std::string name;
  AttrDict attrs;
  std::vector<MeshPtr> meshes;      // sdy.mesh symbols, in order
  std::vector<Function> functions;  // in order
  // Where meshes stand among the functions, for the text: how many functions come before each mesh.
  // Meshes beyond its end come first.
  std::vector<size_t> functions_before_mesh;
  // Of sdy.mesh ops that have any, by symbol.
  std::map<std::string, AttrDict, std::less<>> mesh_attrs;

  Value& value(ValueId id) { return values_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  Node& node(NodeId id) { return nodes_[id.index]; }
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  Region& region(RegionId id) { return regions_[id.index]; }
  const Region& region(RegionId id) const { return regions_[id.index]; }
  size_t num_values() const { return values_.size(); }
  size_t num_nodes() const { return nodes_.size(); }
  size_t num_regions() const { return regions_.size(); }

  const Type& type(ValueId id) const { return values_[id.index].type; }
  const Type& operand_type(const Node& node, size_t i) const { return type(node.operands[i]); }
  const Type& result_type(const Node& node, size_t i = 0) const { return type(node.results[i]); }

  MeshPtr find_mesh(std::string_view symbol) const;  // null if there is none
  Function* find_function(std::string_view symbol);  // null if there is none
  const Function* find_function(std::string_view symbol) const;

  // Building. A node is created detached, with results of the given types, and then appended or
  // inserted. `add_node` looks the name up in the registry to set `def`.
  RegionId add_region(NodeId owner = {});  // with an owner: also its last region
  ValueId add_argument(RegionId region, Type type, std::string name = {});
  NodeId add_node(std::string_view op, std::vector<ValueId> operands,
                  std::vector<Type> result_types, AttrDict attrs = {});
  // The same op as a node of this or another graph, at the same location; regions are not copied.
  NodeId add_node_like(const Node& like, std::vector<ValueId> operands,
                       std::vector<Type> result_types, AttrDict attrs);
  void append(RegionId region, NodeId node);
  void insert_before(NodeId position, NodeId node);
  void insert_after(NodeId position, NodeId node);
  void remove(NodeId node);                         // from its region
  void replace_all_uses(ValueId from, ValueId to);  // linear in the size of the module

  // Calls `visit` for the nodes of a region in order, each before the nodes of the regions inside
  // it.
  void walk(RegionId region, const std::function<void(NodeId)>& visit) const;
  void walk(const std::function<void(NodeId)>& visit) const;  // every function in order

  NodeId terminator(RegionId region) const { return regions_[region.index].nodes.back(); }

 private:
  void insert(NodeId position, NodeId node, size_t offset);
  NodeId add(Node node, std::vector<Type> result_types);

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Region> regions_;
};

// The uses of values: built once for a pass that asks often.
struct Use {
  NodeId node;
  uint32_t operand;
};
class UseMap {
 public:
  explicit UseMap(const Graph& graph);
  std::span<const Use> uses(ValueId value) const;

 private:
  std::vector<uint32_t> begin_;
  std::vector<Use> uses_;
};

}  // namespace cleave
