#include <algorithm>
#include <unordered_map>

#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"
#include "cleave/runtime/ops_sharding.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/record_order.h"

namespace cleave {
namespace {

constexpr size_t kMostRecords = 64;
constexpr int64_t kSmall = 1024;  // bytes: keys, scalars, and what every device may compute whole

bool is_small(const Type& type) { return type.is_tensor() && type.byte_count() <= kSmall; }

// Draws or counts its elements, or computes each from those at the same place: a device makes its
// part alone.
bool makes_parts(const Graph& form, const Shape& shape) {
  bool yes = true;
  form.walk([&](NodeId id) {
    const Node& node = form.node(id);
    bool known =
        (node.def->has(kTerminator) || node.def->has(kElementwise) || node.def->has(kConstantLike));
    known |= is<op::RngBitGenerator>(node);
    known |= is<op::BroadcastInDim>(node) && is_small(form.operand_type(node, 0));
    known |= is<op::BitcastConvert>(node) &&
             form.operand_type(node, 0).shape == form.result_type(node).shape;
    yes &= known && node.regions.empty();
    for (ValueId result : node.results)
      yes &= form.type(result).shape == shape || is_small(form.type(result));
  });
  return yes;
}

void lay_out(Graph& graph, RegionId body, const Shape& shape, const ShardingSpec& spec) {
  for (NodeId id : graph.region(body).nodes) {
    Node& node = graph.node(id);
    if (node.results.empty() || graph.type(node.results.back()).shape != shape) continue;
    ShardingsAttr shardings;
    for (size_t i = 0; i + 1 < node.results.size(); ++i)
      shardings.specs.push_back(
          ShardingSpec::closed_replicated(spec.mesh, graph.type(node.results[i]).rank()));
    shardings.specs.push_back(spec);
    node.attrs.set("sdy.sharding", std::move(shardings));
  }
}

}  // namespace

std::optional<Tensor> made_in_layout(const Tensor& x, const ShardingSpec& spec) {
  Record* root = x.record();
  if (!root || root->computed || root->level || trace_level() || root->signature->mesh ||
      spec.is_partial() || is_small(x.type()))
    return std::nullopt;
  Record* const roots[] = {root};
  const std::vector<Record*> order =
      in_order(roots, [](const Record& record) { return !record.computed; });
  if (order.size() > kMostRecords) return std::nullopt;
  std::vector<Tensor> inputs;
  std::unordered_map<Record*, size_t> first_input;  // of records that are computed
  for (Record* record : order) {
    if (record->signature->mesh || !record->signature->graph || record->placeholder ||
        !makes_parts(*record->signature->graph, x.shape()))
      return std::nullopt;
    for (const Tensor& operand : record->operands) {
      Record* from = operand.record();
      if (!from->computed) continue;
      if (from->signature->mesh || !is_small(operand.type())) return std::nullopt;
      if (!first_input.emplace(from, inputs.size()).second) continue;
      for (uint32_t i = 0; i < from->signature->results.size(); ++i) inputs.emplace_back(from, i);
    }
  }
  std::vector<Type> types;
  for (const Tensor& input : inputs) types.push_back(input.type());
  Graph graph;
  GraphBuilder b = GraphBuilder::function(graph, "main", std::move(types));
  std::unordered_map<Record*, std::vector<ValueId>> made;
  for (Record* record : order) {
    std::vector<ValueId> operands;
    for (const Tensor& operand : record->operands) {
      const auto known = made.find(operand.record());
      operands.push_back(known != made.end()
                             ? known->second[operand.index()]
                             : b.arg(first_input.at(operand.record()) + operand.index()));
    }
    const Graph& form = *record->signature->graph;
    made[record] = splice(form, form.functions[0], graph, b.region(), operands);
  }
  const ValueId whole = made.at(root)[x.index()];
  lay_out(graph, b.region(), x.shape(), spec);
  AttrDict attrs;
  attrs.set("sharding", ShardingAttr{spec});
  b.finish({b.emit_as(b.type(whole), "sdy.sharding_constraint", {whole}, std::move(attrs))});
  return record_function(std::move(graph), inputs)[0];
}

}  // namespace cleave
