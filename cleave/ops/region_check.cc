#include "cleave/ops/region_check.h"

#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

bool are_scalars(const Graph& graph, const std::vector<ValueId>& values,
                 const std::vector<DType>& dtypes) {
  if (values.size() != dtypes.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    if (!type.is_tensor() || type.unranked || type.rank() != 0 || type.dtype != dtypes[i])
      return false;
  }
  return true;
}

std::string text_of(const std::vector<DType>& dtypes) {
  std::string text;
  for (DType dtype : dtypes) text += (text.empty() ? "" : ", ") + std::string(name(dtype));
  return text;
}

std::string text_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += (text.empty() ? "" : ", ") + to_string(graph.type(value));
  return text;
}

}  // namespace

void require_scalar_region(const Graph& graph, const Node& node, size_t index, const char* what,
                           const std::vector<DType>& args, const std::vector<DType>& results) {
  require(index < node.regions.size(), node, "has no {}", what);
  const Region& region = graph.region(node.regions[index]);
  require(!region.nodes.empty(), node, "the {} is empty", what);
  const std::vector<ValueId>& returned = graph.node(region.nodes.back()).operands;
  require(are_scalars(graph, region.args, args) && are_scalars(graph, returned, results), node,
          "the {} must be ({}) -> ({}) of scalars, got ({}) -> ({})", what, text_of(args),
          text_of(results), text_of(graph, region.args), text_of(graph, returned));
}

}  // namespace cleave
