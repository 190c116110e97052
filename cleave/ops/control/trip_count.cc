#include "cleave/ops/control/trip_count.h"

#include <algorithm>

#include "cleave/core/shape.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/literal_array.h"

namespace cleave::plan {
namespace {

const Node* producer_of(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  return id.valid() ? &graph.node(id) : nullptr;
}

// Through changes of layout and names, which keep the value.
ValueId origin_of(const Graph& graph, ValueId value) {
  while (const Node* node = producer_of(graph, value)) {
    const bool same = node->name == "cleave.transfer" || node->name.starts_with("sdy.") ||
                      node->name == "stablehlo.reshape" || node->name == "stablehlo.convert";
    if (!same || node->operands.size() != 1) break;
    value = node->operands[0];
  }
  return value;
}

std::optional<int64_t> constant_of(const Graph& graph, ValueId value) {
  value = origin_of(graph, value);
  const Type& type = graph.type(value);
  if (!type.is_tensor() || !is_integer(type.dtype) || num_elements(type.shape) != 1)
    return std::nullopt;
  if (const Node* node = producer_of(graph, value)) {
    if (!node->def || !node->def->has(kConstantLike) || !node->attrs.has("value"))
      return std::nullopt;
    const Array wide = convert(array_of(node->attrs.get_literal("value")), DType::I64).contiguous();
    return *wide.data<int64_t>();
  }
  // What a loop carries unchanged is what it began with.
  const Value& arg = graph.value(value);
  const NodeId owner = arg.region.valid() ? graph.region(arg.region).owner : NodeId{};
  if (!owner.valid() || graph.node(owner).name != "stablehlo.while") return std::nullopt;
  const Node& loop = graph.node(owner);
  const Node& end = graph.node(graph.terminator(loop.regions[1]));
  const ValueId carried = graph.region(loop.regions[1]).args[arg.index];
  if (origin_of(graph, end.operands[arg.index]) != carried) return std::nullopt;
  return constant_of(graph, loop.operands[arg.index]);
}

std::optional<uint32_t> argument_of(const Graph& graph, ValueId value, RegionId region) {
  const Value& v = graph.value(origin_of(graph, value));
  if (v.producer.valid() || v.region != region) return std::nullopt;
  return v.index;
}

// The step of a carried integer: returned as itself plus or minus a constant.
std::optional<int64_t> step_of(const Graph& graph, RegionId body, uint32_t index) {
  const Node& end = graph.node(graph.terminator(body));
  const Node* node = producer_of(graph, origin_of(graph, end.operands[index]));
  if (!node || node->operands.size() != 2) return std::nullopt;
  const bool adds = node->name == "stablehlo.add";
  if (!adds && node->name != "stablehlo.subtract") return std::nullopt;
  for (size_t k = 0; k < (adds ? 2 : 1); ++k)
    if (argument_of(graph, node->operands[k], body) == index)
      if (const auto step = constant_of(graph, node->operands[1 - k])) return adds ? *step : -*step;
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> trip_count(const Graph& graph, const Node& loop) {
  if (loop.name != "stablehlo.while" || loop.regions.size() != 2) return std::nullopt;
  const Node& end = graph.node(graph.terminator(loop.regions[0]));
  const Node* test = producer_of(graph, origin_of(graph, end.operands[0]));
  if (!test || test->name != "stablehlo.compare") return std::nullopt;
  std::string direction(test->attrs.get_string("comparison_direction"));
  auto index = argument_of(graph, test->operands[0], loop.regions[0]);
  auto limit = constant_of(graph, test->operands[1]);
  if (!index || !limit) {
    index = argument_of(graph, test->operands[1], loop.regions[0]);
    limit = constant_of(graph, test->operands[0]);
    if (direction[0] != 'N' && direction[0] != 'E') direction[0] = direction[0] == 'L' ? 'G' : 'L';
  }
  if (!index || !limit) return std::nullopt;
  const auto begin = constant_of(graph, loop.operands[*index]);
  const auto step = step_of(graph, loop.regions[1], *index);
  if (!begin || !step || *step == 0) return std::nullopt;
  int64_t distance = *limit - *begin, stride = *step;
  if (direction[0] == 'G') {
    distance = -distance;
    stride = -stride;
  }
  if (direction == "LE" || direction == "GE") ++distance;
  if (direction == "NE") {
    if (distance % stride != 0 || distance / stride < 0) return std::nullopt;
    return distance / stride;
  }
  if (direction == "EQ" || stride < 0) return std::nullopt;
  return std::max<int64_t>(0, ceil_div(distance, stride));
}

}  // namespace cleave::plan
