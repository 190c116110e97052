#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/graph/literal.h"

namespace cleave {

// Walks every region of a module in order, inner ones too, and offers each node to a rule, which
// may put nodes before it and say which values take the place of its results. One walk is linear in
// the size of the module; what a rule makes is seen by the rules of later nodes.
class Rewriter {
 public:
  using Rule = std::function<void(Rewriter&, NodeId)>;

  explicit Rewriter(Graph& graph) : graph_(graph) {}
  // True if something changed.
  bool run(const Rule& rule);

  Graph& graph() { return graph_; }
  const Type& type(ValueId value) const { return graph_.type(value); }
  // The node that makes a value, or null for an argument.
  const Node* producer(ValueId value) const;
  // The literal of a constant, or null.
  const Literal* constant(ValueId value) const;

  ValueId emit(std::string_view op, std::vector<ValueId> operands, Type type, AttrDict attrs = {});
  ValueId emit_constant(Literal literal);
  ValueId emit_reshape(ValueId value, Shape shape);
  // Later uses of `from` become uses of `to`, which has the same type.
  void replace(ValueId from, ValueId to);
  // The node was edited in place.
  void touch() { changed_ = true; }

 private:
  void walk(RegionId region, const Rule& rule);
  ValueId resolve(ValueId value) const;

  Graph& graph_;
  std::vector<ValueId> replaced_;  // by value
  std::vector<NodeId>* list_ = nullptr;
  RegionId region_;
  bool changed_ = false;
};

// Whether the node has a sharding of its own, which must not be lost.
bool is_pinned(const Node& node);
// The single element of a literal that has one value everywhere; nothing for other literals.
std::optional<Literal> splat_of(const Literal& literal);
// The element of a splat (or of a scalar) of a real dtype as a double; nothing for others.
std::optional<double> splat_value(const Literal& literal);

}  // namespace cleave
