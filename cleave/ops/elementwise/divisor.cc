#include "cleave/ops/elementwise/divisor.h"

#include "cleave/graph/op_def.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/identity.h"
#include "cleave/ops/literal_array.h"

namespace cleave {
namespace {

// Constants of more elements are not looked through.
constexpr int64_t kMostElements = 1 << 12;

bool is_nonzero(const Literal& literal) {
  if (!has_kernels(literal.type.dtype) || is_complex(literal.type.dtype)) return false;
  if (!literal.splat && num_elements(literal.type.shape) > kMostElements) return false;
  const Array values = convert(array_of(literal), DType::F64).contiguous();
  for (int64_t i = 0; i < values.num_elements(); ++i)
    if (values.data<double>()[i] == 0) return false;
  return true;
}

}  // namespace

bool divisor_is_nonzero(const Graph& graph, const Node& divide) {
  if (divide.attrs.has(kNonzeroDivisor)) return true;
  ValueId value = divide.operands[1];
  for (;;) {
    value = behind_identities(graph, value);
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid()) return false;
    const Node& node = graph.node(producer);
    const Attribute* constant = node.operands.empty() ? node.attrs.find("value") : nullptr;
    if (const auto* elements = constant ? constant->as<ElementsAttr>() : nullptr)
      return is_nonzero(elements->literal);
    const bool copies = node.def->has(kViewLike);
    if (!copies || node.operands.size() != 1) return false;
    value = node.operands[0];
  }
}

}  // namespace cleave
