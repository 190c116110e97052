#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cleave/graph/cloner.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/call_graph.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {
namespace {

bool is_scalar(const Type& type) { return type.is_tensor() && type.rank() == 0; }
bool is_constant(const Node& node) { return is<op::SdyConstant, op::Iota>(node); }
bool is_return(const Node& node) { return node.name().ends_with(".return"); }

bool is_scalar_expansion(const Graph& graph, const Node& node) {
  return is<op::BroadcastInDim>(node) && is_scalar(graph.type(node.operands[0]));
}

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph) {}

  void run() {
    convert_constants();
    for (int function : call_graph_post_order(graph_)) {
      function_ = graph_.functions[function].name;
      const RegionId body = graph_.functions[function].body;
      if (!body.valid()) continue;
      split_named_computations(body);
      split(body);
    }
  }

 private:
  void convert_constants() {
    graph_.walk([&](NodeId id) {
      Node& node = graph_.node(id);
      if (!is<op::Constant>(node)) return;
      node.def = &def_of<op::SdyConstant>();
    });
  }

  void split_named_computations(RegionId region) {
    const std::vector<NodeId> nodes = graph_.region(region).nodes;
    for (NodeId id : nodes) {
      const std::vector<RegionId> regions = graph_.node(id).regions;
      for (RegionId inner : regions) split_named_computations(inner);
      if (is<op::NamedComputation>(graph_.node(id))) split(regions[0]);
    }
  }

  // One body at a time, so that what is copied is already split inside.
  void split(RegionId body) {
    constants_.clear();
    expansions_.clear();
    groups_of_.clear();
    constant_.assign(graph_.num_nodes(), 0);
    expansion_.assign(graph_.num_nodes(), 0);
    GraphRewrite insertions(graph_);
    rewrite_ = &insertions;
    split_region(body);
    insertions.apply(body);
    GraphRewrite removals(graph_);
    rewrite_ = &removals;
    erase_unused(body);
    removals.apply(body);
  }

  // Nodes in the order of the text, but not those of named computations inside.
  void split_region(RegionId region) {
    const std::vector<NodeId> nodes = graph_.region(region).nodes;
    for (NodeId id : nodes) {
      process(id);
      if (is<op::NamedComputation>(graph_.node(id))) continue;
      const std::vector<RegionId> regions = graph_.node(id).regions;
      for (RegionId inner : regions) split_region(inner);
    }
  }

  bool preserves_constants(const Node& node) const {
    if (is<op::Call>(node)) return !not_constant_.contains(std::string(callee_name(node)));
    if (is<op::NamedComputation>(node))
      return !not_constant_computations_.contains(std::string(node.attrs.get_string("name")));
    return node.def->has(kKeepsConstants) || (node.def->has(kElementwise) && node.def->has(kPure));
  }

  bool is_constant_expression(const Node& node) const {
    if (is_constant(node)) return true;
    if (!preserves_constants(node)) return false;
    return std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
      const NodeId producer = graph_.value(operand).producer;
      return producer.valid() && producer.index < constant_.size() && constant_[producer.index];
    });
  }

  void process(NodeId id) {
    const Node& node = graph_.node(id);
    if (is<op::ShardingGroup>(node)) {
      groups_of_[node.operands[0].index].push_back(id);
      return;
    }
    if (is_constant_expression(node)) {
      constant_[id.index] = 1;
      constants_.push_back(id);
      return;
    }
    if (!preserves_constants(node) && !is_return(node)) {
      not_constant_.insert(function_);
      for (RegionId region = node.parent; region.valid();) {
        const NodeId owner = graph_.region(region).owner;
        if (!owner.valid()) break;
        const Node& parent = graph_.node(owner);
        if (is<op::NamedComputation>(parent)) {
          not_constant_computations_.insert(std::string(parent.attrs.get_string("name")));
          break;
        }
        region = parent.parent;
      }
    }
    if (is_scalar_expansion(graph_, node)) {
      expansion_[id.index] = 1;
      expansions_.push_back(id);
      return;
    }
    const size_t operands = node.operands.size();
    for (size_t i = 0; i < operands; ++i) {
      const ValueId operand = graph_.node(id).operands[i];
      const NodeId producer = graph_.value(operand).producer;
      if (!producer.valid() || producer.index >= constant_.size()) continue;
      if (!constant_[producer.index] && !expansion_[producer.index]) continue;
      if (is_scalar(graph_.type(operand))) continue;
      Cloner clone(graph_, ValueMap::sparse());
      copy(operand, clone);
      graph_.node(id).operands[i] = clone.mapped(operand);
    }
  }

  // Copies the computation of `value` right before the original, but for scalars.
  void copy(ValueId value, Cloner& clone) {
    if (is_scalar(graph_.type(value)) || clone.values().has(value)) return;
    const NodeId producer = graph_.value(value).producer;
    const std::vector<ValueId> operands = graph_.node(producer).operands;
    for (ValueId operand : operands)
      if (graph_.value(operand).producer.valid()) copy(operand, clone);
    const NodeId made = clone.detached(producer);
    if (is<op::Call>(graph_.node(made))) clone_callee(graph_, made, counter_);
    rewrite_->insert_before(producer, made);
    for (NodeId group : groups_of_[value.index]) {
      const AttrDict attrs = graph_.node(group).attrs;
      const NodeId member = graph_.add_node("sdy.sharding_group", {clone.mapped(value)}, {}, attrs);
      rewrite_->insert_before(producer, member);
    }
  }

  // Nothing uses the originals any more, except for scalars.
  void erase_unused(RegionId body) {
    std::vector<uint32_t> count(graph_.num_values());
    graph_.walk(body, [&](NodeId id) {
      const Node& node = graph_.node(id);
      if (is<op::ShardingGroup>(node)) return;
      for (ValueId operand : node.operands) ++count[operand.index];
    });
    auto erase_if_unused = [&](NodeId id) {
      const Node& node = graph_.node(id);
      for (ValueId result : node.results)
        if (count[result.index] != 0) return;
      for (ValueId result : node.results)
        for (NodeId group : groups_of_[result.index]) rewrite_->erase(group);
      for (ValueId operand : node.operands) --count[operand.index];
      rewrite_->erase(id);
    };
    for (NodeId id : expansions_) erase_if_unused(id);
    for (auto it = constants_.rbegin(); it != constants_.rend(); ++it) erase_if_unused(*it);
  }

  Graph& graph_;
  GraphRewrite* rewrite_ = nullptr;
  int counter_ = 0;
  std::string function_;
  std::vector<uint8_t> constant_, expansion_;  // by node
  std::vector<NodeId> constants_, expansions_;
  std::unordered_set<std::string> not_constant_, not_constant_computations_;
  std::unordered_map<uint32_t, std::vector<NodeId>> groups_of_;
};

}  // namespace

void split_constants(Graph& graph) { Splitter(graph).run(); }

}  // namespace cleave
