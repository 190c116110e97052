#include "cleave/analyze/kernel_roles.h"

#include <optional>

#include "cleave/core/kernel_classes.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

double elements(const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  return type.is_tensor() && type.has_static_shape() ? static_cast<double>(num_elements(type.shape))
                                                     : 0;
}

// A reduction over dimensions of size 1, a conversion to the type that the value has.
bool is_same_bytes(const Graph& graph, const Node& node) {
  if (node.results.size() != 1 || node.operands.empty()) return false;
  if (is<op::Convert>(node))
    return graph.operand_type(node, 0).dtype == graph.result_type(node).dtype;
  return is<op::Reduce>(node) &&
         elements(graph, node.operands[0]) == elements(graph, node.results[0]);
}

// A compiler writes it as a multiplication and a sum.
bool is_product_with_vector(const Graph& graph, const Node& node) {
  const std::optional<DotDims> dims = dot_dims_of(graph, node);
  if (!dims) return false;
  double shared = 1;
  for (int64_t dim : dims->lhs_batch)
    shared *= static_cast<double>(graph.operand_type(node, 0).shape[dim]);
  for (int64_t dim : dims->lhs_contract)
    shared *= static_cast<double>(graph.operand_type(node, 0).shape[dim]);
  return elements(graph, node.operands[0]) == shared || elements(graph, node.operands[1]) == shared;
}

// The sum of a product, which nothing else reads, and of a vector along its rows.
bool is_bias_of_product(const Graph& graph, const Node& node) {
  if (!is<op::Add>(node)) return false;
  const NodeId product = graph.value(node.operands[0]).producer;
  const NodeId spread = graph.value(node.operands[1]).producer;
  if (!product.valid() || !spread.valid() || !graph.node(spread).def->has(kRepeats)) return false;
  const Type& vector = graph.operand_type(graph.node(spread), 0);
  if (!dot_dims_of(graph, graph.node(product)) || vector.shape.size() != 1) return false;
  return vector.shape[0] == graph.result_type(node).shape.back();
}

}  // namespace

Role kernel_role(const Graph& graph, const Node& node, const ExecutorProfile& executor) {
  const OpDef& def = *node.def;
  if (def.has(kTerminator)) return Role::End;
  if (def.has(kConstantLike)) return Role::Known;
  if (flow_of(node) == Flow::Barrier || def.has(kSameValue)) return Role::View;
  if (flow_of(node) != Flow::None) return Role::Own;
  if (is_same_bytes(graph, node)) return Role::View;
  if (executor.adds_bias && is_bias_of_product(graph, node)) return Role::View;
  if (is<op::Reduce>(node) || (is<op::Scatter>(node) && node.results.size() == 1))
    return Role::Reduce;
  const KernelClass kernel = op_cost(graph, node).kernel;
  if (kernel == KernelClass::Matmul || kernel == kConvolutionClass)
    return is_product_with_vector(graph, node) ? Role::Reduce : Role::Library;
  if (is<op::Reshape, op::BitcastConvert>(node)) return Role::View;
  if (def.has(kElementwise) || def.has(kViewLike) || def.has(kRepeats) || def.has(kWindow) ||
      def.has(kAssembles) || is<op::Gather>(node))
    return node.results.size() == 1 ? Role::Inside : Role::Own;
  return Role::Own;
}

}  // namespace cleave::analyze
