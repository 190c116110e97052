#include "cleave/ops/control/trip_count.h"

#include <algorithm>

#include "cleave/core/shape.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/literal_array.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

const Node* producer_of(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  return id.valid() ? &graph.node(id) : nullptr;
}

bool keeps_number(const Graph& graph, const Node& node) {
  if (is<op::Convert>(node))
    return byte_size(graph.result_type(node).dtype) >= byte_size(graph.operand_type(node, 0).dtype);
  return is<op::Transfer, op::Reshape>(node) || node.name().starts_with("sdy.");
}

// Through changes of layout and names, which keep the value.
ValueId origin_of(const Graph& graph, ValueId value) {
  while (const Node* node = producer_of(graph, value)) {
    if (node->operands.size() != 1 || !keeps_number(graph, *node)) break;
    value = node->operands[0];
  }
  return value;
}

class LoopCount {
 public:
  LoopCount(const Graph& graph, const Node& node, LoopRegions loop, const Counterpart& counterpart)
      : graph_(graph), node_(node), loop_(loop), counterpart_(counterpart) {}

  std::optional<CountedLoop> run() const {
    const Node* test = tested();
    if (!test) return std::nullopt;
    std::string direction(test->attrs.get_string("comparison_direction"));
    auto index = argument_of(test->operands[0], loop_.condition);
    auto limit = constant_of(test->operands[1]);
    if (!index || !limit) {
      index = argument_of(test->operands[1], loop_.condition);
      limit = constant_of(test->operands[0]);
      if (direction[0] != 'N' && direction[0] != 'E')
        direction[0] = direction[0] == 'L' ? 'G' : 'L';
    }
    if (!index || !limit) return std::nullopt;
    const auto begin = constant_of(node_.operands[*index]);
    const auto step = step_of(*index);
    if (!begin || !step || *step == 0) return std::nullopt;
    const auto trips = trips_between(*begin, *limit, *step, direction);
    if (!trips) return std::nullopt;
    return CountedLoop{*index, *begin, *step, *trips};
  }

 private:
  // The comparison that ends the loop.
  const Node* tested() const {
    const std::vector<ValueId> decided = returned_values(graph_, loop_.condition);
    if (decided.empty()) return nullptr;
    const Node* test = producer_of(graph_, origin_of(graph_, decided[0]));
    return test && is<op::Compare>(*test) ? test : nullptr;
  }

  static std::optional<int64_t> trips_between(int64_t begin, int64_t limit, int64_t step,
                                              const std::string& direction) {
    int64_t distance = limit - begin;
    if (direction[0] == 'G') {
      distance = -distance;
      step = -step;
    }
    if (direction == "LE" || direction == "GE") ++distance;
    if (direction == "NE") {
      if (distance % step != 0 || distance / step < 0) return std::nullopt;
      return distance / step;
    }
    if (direction == "EQ" || step < 0) return std::nullopt;
    return std::max<int64_t>(0, ceil_div(distance, step));
  }

  std::optional<int64_t> constant_of(ValueId value) const {
    value = origin_of(graph_, value);
    if (const auto number = constant_at(value)) return number;
    return counterpart_ ? constant_at(origin_of(graph_, counterpart_(value))) : std::nullopt;
  }

  std::optional<int64_t> constant_at(ValueId value) const {
    const Type& type = graph_.type(value);
    if (!type.is_tensor() || !is_integer(type.dtype) || num_elements(type.shape) != 1)
      return std::nullopt;
    if (const Node* node = producer_of(graph_, value)) {
      if (!node->def->has(kConstantLike) || !node->attrs.has("value")) return std::nullopt;
      const Array wide =
          convert(array_of(node->attrs.get_literal("value")), DType::I64).contiguous();
      return *wide.data<int64_t>();
    }
    const std::optional<ValueId> before = carried_unchanged(graph_.value(value));
    return before ? constant_of(*before) : std::nullopt;
  }

  // What a loop carries unchanged is what it began with. The loop may be one that is still being
  // written, without its end.
  std::optional<ValueId> carried_unchanged(const Value& arg) const {
    const NodeId owner = arg.region.valid() ? graph_.region(arg.region).owner : NodeId{};
    const auto loop = owner.valid() ? loop_of(graph_.node(owner)) : std::nullopt;
    if (!loop) return std::nullopt;
    const Region& body = graph_.region(loop->body);
    if (body.nodes.empty()) return std::nullopt;
    const Node& end = graph_.node(body.nodes.back());
    if (!end.def->has(kTerminator)) return std::nullopt;
    if (origin_of(graph_, end.operands[arg.index]) != body.args[arg.index]) return std::nullopt;
    return graph_.node(owner).operands[arg.index];
  }

  std::optional<uint32_t> argument_of(ValueId value, RegionId region) const {
    const Value& v = graph_.value(origin_of(graph_, value));
    if (v.producer.valid() || v.region != region) return std::nullopt;
    return v.index;
  }

  // The step of a carried integer: returned as itself plus or minus a constant.
  std::optional<int64_t> step_of(uint32_t index) const {
    const ValueId next = returned_values(graph_, loop_.body)[index];
    const Node* node = producer_of(graph_, origin_of(graph_, next));
    if (!node || !is<op::Add, op::Subtract>(*node)) return std::nullopt;
    const bool adds = is<op::Add>(*node);
    for (size_t k = 0; k < (adds ? 2 : 1); ++k)
      if (argument_of(node->operands[k], loop_.body) == index)
        if (const auto step = constant_of(node->operands[1 - k])) return adds ? *step : -*step;
    return std::nullopt;
  }

  const Graph& graph_;
  const Node& node_;
  const LoopRegions loop_;
  const Counterpart& counterpart_;
};

}  // namespace

std::optional<CountedLoop> counted_loop(const Graph& graph, const Node& loop,
                                        const Counterpart& counterpart) {
  const auto regions = loop_of(loop);
  if (!regions) return std::nullopt;
  return LoopCount(graph, loop, *regions, counterpart).run();
}

std::optional<int64_t> trip_count(const Graph& graph, const Node& loop) {
  const auto counted = counted_loop(graph, loop);
  return counted ? std::optional(counted->trips) : std::nullopt;
}

}  // namespace cleave
