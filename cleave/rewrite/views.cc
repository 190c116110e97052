#include <algorithm>
#include <numeric>

#include "cleave/graph/op_def.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op_table.h"
#include "cleave/rewrite/rewriter.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

using Dims = std::vector<int64_t>;

bool counts_up(const Dims& dims) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != static_cast<int64_t>(d)) return false;
  return true;
}

Shape without_ones(const Shape& shape) {
  Shape result;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(result),
               [](int64_t size) { return size != 1; });
  return result;
}

bool contains(const Dims& dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

class Views {
 public:
  Views(Rewriter& rewriter, NodeId id)
      : r_(rewriter), id_(id), node_(rewriter.graph().node(id)), result_(node_.results[0]) {}

  void run() {
    using Rule = void (Views::*)();
    static const auto rules = OpTable<Rule>()
                                  .set<op::DotGeneral>(&Views::dot)
                                  .set<op::Concatenate>(&Views::concatenate)
                                  .set<op::Reshape>(&Views::reshape)
                                  .set<op::Transpose>(&Views::transpose)
                                  .set<op::BroadcastInDim>(&Views::broadcast)
                                  .set<op::Slice>(&Views::slice);
    if (const Rule* rule = rules.find(node_)) (this->*(*rule))();
  }

 private:
  const Shape& shape() const { return r_.type(result_).shape; }
  const Shape& shape_of(ValueId value) const { return r_.type(value).shape; }
  ValueId in() const { return node_.operands[0]; }
  void keep(ValueId value) {
    if (r_.type(value) == r_.type(result_)) r_.replace(result_, value);
  }
  // The op of this kind that makes the operand, if it may be looked through.
  template <typename Op>
  const Node* inner() const {
    const Node* node = r_.producer(in());
    if (!node || !is<Op>(*node) || is_pinned(*node)) return nullptr;
    return r_.type(node->operands[0]).has_static_shape() ? node : nullptr;
  }

  void reshape() {
    if (shape_of(in()) == shape()) return keep(in());
    if (const Node* node = inner<op::Reshape>())
      return r_.replace(result_, r_.emit_reshape(node->operands[0], shape()));
    // A broadcast followed by dimensions of size 1 is one broadcast.
    const Node* node = inner<op::BroadcastInDim>();
    if (!node || r_.type(node->operands[0]).rank() != 0) return;
    AttrDict attrs;
    attrs.set("broadcast_dimensions", ints_attr({}));
    const ValueId scalar = node->operands[0];
    r_.replace(result_, r_.emit("stablehlo.broadcast_in_dim", {scalar}, r_.type(result_), attrs));
  }

  void transpose() {
    const Dims permutation = node_.attrs.get_ints("permutation");
    if (counts_up(permutation)) return keep(in());
    // Dimensions of more than one element keep their order: the elements do not move.
    Dims moved;
    for (int64_t d : permutation)
      if (shape_of(in())[d] != 1) moved.push_back(d);
    if (std::is_sorted(moved.begin(), moved.end()))
      return r_.replace(result_, r_.emit_reshape(in(), shape()));
    if (const Node* node = inner<op::Transpose>()) {
      const Dims first = node->attrs.get_ints("permutation");
      const ValueId source = node->operands[0];
      Dims both;
      for (int64_t d : permutation) both.push_back(first[d]);
      AttrDict attrs;
      attrs.set("permutation", ints_attr(both));
      return r_.replace(result_, r_.emit("stablehlo.transpose", {source}, r_.type(result_), attrs));
    }
    transpose_of_dot(permutation);
  }

  // (a b)^T = b a, if the permutation swaps the free dimensions of both sides as blocks.
  void transpose_of_dot(const Dims& permutation) {
    const Node* found = inner<op::DotGeneral>();
    if (!found) return;
    const Node dot = *found;
    const DotDims dims = dot_dims(dot);
    const size_t batch = dims.lhs_batch.size();
    const size_t lhs_free = shape_of(dot.operands[0]).size() - batch - dims.lhs_contract.size();
    const size_t rank = permutation.size(), rhs_free = rank - batch - lhs_free;
    for (size_t d = 0; d < rank; ++d) {
      const size_t expected = d < batch ? d : d < batch + rhs_free ? d + lhs_free : d - rhs_free;
      if (permutation[d] != static_cast<int64_t>(expected)) return;
    }
    AttrDict attrs = dot.attrs;
    const Attribute* precision = attrs.find("precision_config");
    const ArrayAttr* list = precision ? precision->as<ArrayAttr>() : nullptr;
    if (list && list->elements.size() == 2)
      attrs.set("precision_config", ArrayAttr{{list->elements[1], list->elements[0]}});
    if (attrs.has("algorithm")) return;
    attrs.set(kDotDims, dot_dims_attr({dims.rhs_batch, dims.lhs_batch, dims.rhs_contract,
                                       dims.lhs_contract}));
    r_.replace(result_, r_.emit("stablehlo.dot_general", {dot.operands[1], dot.operands[0]},
                                r_.type(result_), attrs));
  }

  void broadcast() {
    const Dims dims = node_.attrs.get_ints_or_empty("broadcast_dimensions");
    if (shape_of(in()) == shape() && counts_up(dims)) return keep(in());
    if (without_ones(shape_of(in())) == without_ones(shape()) &&
        std::is_sorted(dims.begin(), dims.end()))
      return r_.replace(result_, r_.emit_reshape(in(), shape()));
    if (const Node* node = inner<op::BroadcastInDim>()) {
      const Dims first = node->attrs.get_ints_or_empty("broadcast_dimensions");
      const ValueId source = node->operands[0];
      Dims both;
      for (int64_t d : first) both.push_back(dims[d]);
      AttrDict attrs;
      attrs.set("broadcast_dimensions", ints_attr(both));
      return r_.replace(result_,
                        r_.emit("stablehlo.broadcast_in_dim", {source}, r_.type(result_), attrs));
    }
    broadcast_of_reshape(dims);
  }

  // The reshape only adds or drops dimensions of size 1, which need no place in the result.
  void broadcast_of_reshape(const Dims& dims) {
    const Node* node = inner<op::Reshape>();
    if (!node) return;
    const ValueId source = node->operands[0];
    const Shape& middle = shape_of(in());
    const Shape& first = shape_of(source);
    if (without_ones(middle) != without_ones(first) || first.size() >= middle.size()) return;
    Dims places;
    size_t next = 0;
    for (int64_t size : first) {
      if (size == 1) return;
      while (middle[next] == 1) ++next;
      places.push_back(dims[next++]);
    }
    AttrDict attrs;
    attrs.set("broadcast_dimensions", ints_attr(places));
    r_.replace(result_, r_.emit("stablehlo.broadcast_in_dim", {source}, r_.type(result_), attrs));
  }

  void concatenate() {
    if (node_.operands.size() == 1) keep(node_.operands[0]);
  }

  void slice() {
    if (shape_of(in()) == shape()) keep(in());
  }

  // Operands that are transposes are read as they were, if their free dimensions keep their
  // order.
  void dot() {
    const DotDims dims = dot_dims(node_);
    Dims batch[2] = {dims.lhs_batch, dims.rhs_batch};
    Dims contract[2] = {dims.lhs_contract, dims.rhs_contract};
    bool changed = false;
    for (size_t i : {0, 1}) {
      const Node* node = r_.producer(node_.operands[i]);
      if (!node || !is<op::Transpose>(*node) || is_pinned(*node)) continue;
      const Dims permutation = node->attrs.get_ints("permutation");
      Dims free;
      for (size_t d = 0; d < permutation.size(); ++d)
        if (!contains(batch[i], static_cast<int64_t>(d)) &&
            !contains(contract[i], static_cast<int64_t>(d)))
          free.push_back(permutation[d]);
      if (!std::is_sorted(free.begin(), free.end())) continue;
      for (int64_t& d : batch[i]) d = permutation[d];
      for (int64_t& d : contract[i]) d = permutation[d];
      r_.graph().node(id_).operands[i] = node->operands[0];
      changed = true;
    }
    if (!changed) return;
    r_.graph().node(id_).attrs.set(kDotDims,
                                   dot_dims_attr({batch[0], batch[1], contract[0], contract[1]}));
    r_.touch();
  }

  Rewriter& r_;
  const NodeId id_;
  const Node node_;  // a copy: emitting moves the table of nodes
  const ValueId result_;
};

}  // namespace

bool simplify_views(Graph& graph) {
  return Rewriter(graph).run([](Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph().node(id);
    if (node.results.size() != 1 || node.operands.empty() || is_pinned(node)) return;
    for (ValueId operand : node.operands)
      if (!rewriter.type(operand).is_tensor() || !rewriter.type(operand).has_static_shape()) return;
    const Type& type = rewriter.type(node.results[0]);
    if (type.is_tensor() && type.has_static_shape()) Views(rewriter, id).run();
  });
}

}  // namespace cleave
