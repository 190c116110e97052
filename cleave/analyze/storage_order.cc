#include "cleave/analyze/storage_order.h"

#include <algorithm>
#include <numeric>

#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

using Order = std::vector<int>;

Order row_major(size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

class Orders {
 public:
  Orders(const Graph& graph, const ExecutorProfile& executor) : graph_(graph), executor_(executor) {
    result_.of.resize(graph.num_values());
    result_.mixed.resize(graph.num_nodes());
  }

  StorageOrders run(RegionId region) {
    for (ValueId arg : graph_.region(region).args) result_.of[arg.index] = plain(arg);
    for (NodeId id : graph_.region(region).nodes) visit(id);
    return std::move(result_);
  }

 private:
  Order plain(ValueId value) const {
    const Type& type = graph_.type(value);
    return type.is_tensor() && !type.unranked ? row_major(type.rank()) : Order{};
  }
  Order& of(ValueId value) { return result_.of[value.index]; }
  Order known(ValueId value) { return of(value).empty() ? plain(value) : of(value); }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.results.empty() || node.def->has(kConstantLike)) return;
    const ValueId result = node.results[0];
    if (node.operands.empty() || node.results.size() > 1 || !graph_.type(result).is_tensor()) {
      if (flow_of(node) == Flow::Barrier)
        for (size_t i = 0; i < node.results.size(); ++i) of(node.results[i]) = of(node.operands[i]);
      else
        for (ValueId each : node.results) of(each) = plain(each);
      return;
    }
    const ValueId operand = node.operands[0];
    if (is<op::Transpose>(node))
      of(result) = transposed(node);
    else if (is<op::Reduce>(node))
      of(result) = reduced(node);
    else if (is<op::Reshape>(node))
      of(result) = reshaped(id);
    else if (node.def->has(kRepeats))
      of(result) = graph_.type(operand).byte_count() * 4 <= graph_.type(result).byte_count() ||
                           of(operand).empty()
                       ? Order{}
                       : plain(result);
    else if (node.def->has(kElementwise) || keeps_rank(node))
      of(result) = shared(id);
    else
      of(result) = plain(result);
  }

  bool keeps_rank(const Node& node) const {
    return (node.def->has(kViewLike) || node.def->has(kAssembles)) &&
           graph_.operand_type(node, 0).rank() == graph_.result_type(node).rank();
  }

  // A product of matrices writes its result in either order.
  bool is_matrix_product(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return producer.valid() && graph_.type(value).rank() == 2 &&
           graph_.node(producer).results.size() == 1 && is<op::DotGeneral>(graph_.node(producer));
  }

  Order transposed(const Node& node) {
    if (is_matrix_product(node.operands[0])) return plain(node.results[0]);
    const std::vector<int64_t> permutation = node.attrs.get_ints("permutation");
    Order order;
    for (int dim : known(node.operands[0]))
      order.push_back(static_cast<int>(std::find(permutation.begin(), permutation.end(), dim) -
                                       permutation.begin()));
    return order;
  }

  Order reduced(const Node& node) {
    const std::vector<int64_t> dims = node.attrs.get_ints_or_empty("dimensions");
    Order order;
    for (int dim : known(node.operands[0])) {
      if (std::find(dims.begin(), dims.end(), dim) != dims.end()) continue;
      const auto before =
          std::count_if(dims.begin(), dims.end(), [&](int64_t d) { return d < dim; });
      order.push_back(dim - static_cast<int>(before));
    }
    return order;
  }

  // Dimensions of one element come and go; others that change are in order again.
  Order reshaped(NodeId id) {
    const Node& node = graph_.node(id);
    if (of(node.operands[0]).empty()) return {};
    const Type& from = graph_.operand_type(node, 0);
    const Type& to = graph_.result_type(node);
    const Order plain_from = real_dims(from, {}), kept = real_dims(from, of(node.operands[0]));
    if (kept == plain_from) return plain(node.results[0]);
    const Order plain_to = real_dims(to, {});
    const bool same =
        std::equal(plain_from.begin(), plain_from.end(), plain_to.begin(), plain_to.end(),
                   [&](int a, int b) { return from.shape[a] == to.shape[b]; });
    if (!same) {
      mark(id, 0, from.shape[kept.back()], from.shape[plain_from.back()]);
      return plain(node.results[0]);
    }
    Order order;
    for (size_t d = 0; d < to.rank(); ++d)
      if (to.shape[d] == 1) order.push_back(static_cast<int>(d));
    for (int dim : kept)
      order.push_back(
          plain_to[std::find(plain_from.begin(), plain_from.end(), dim) - plain_from.begin()]);
    return order;
  }

  Order shared(NodeId id) {
    const Node& node = graph_.node(id);
    const Type& type = graph_.result_type(node);
    const Order* first = nullptr;
    bool any = true;
    for (ValueId operand : node.operands) {
      if (of(operand).empty()) continue;
      any = false;
      if (!first && of(operand).size() == type.rank()) first = &of(operand);
    }
    if (!first) return any ? Order{} : plain(node.results[0]);
    const Order order = *first;
    const Order own = real_dims(type, order);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Type& operand = graph_.operand_type(node, i);
      const Order& other = of(node.operands[i]);
      if (other.empty() || other == order || operand.shape != type.shape) continue;
      const Order its = real_dims(operand, other);
      if (its.empty() || its == own) continue;
      mark(id, i, type.shape[its.back()],
           its.back() == own.back() ? type.shape[its.back()] : type.shape[own.back()]);
      if (!result_.strided.empty() && result_.strided.back().node == id)
        of(node.operands[i]) = order;
    }
    return order;
  }

  // An operand whose rows of `its` elements are read in rows of `own`.
  void mark(NodeId id, size_t operand, int64_t its, int64_t own) {
    if (std::min(its, own) < executor_.short_row)
      result_.strided.push_back({id, operand});
    else
      result_.mixed[id.index] = true;
  }

  const Graph& graph_;
  const ExecutorProfile& executor_;
  StorageOrders result_;
};

}  // namespace

std::vector<int> real_dims(const Type& type, const std::vector<int>& order) {
  std::vector<int> dims;
  for (size_t i = 0; i < type.rank(); ++i) {
    const int dim = order.empty() ? static_cast<int>(i) : order[i];
    if (type.shape[dim] != 1) dims.push_back(dim);
  }
  return dims;
}

StorageOrders storage_orders(const Graph& graph, RegionId region, const ExecutorProfile& executor) {
  return Orders(graph, executor).run(region);
}

}  // namespace cleave::analyze
