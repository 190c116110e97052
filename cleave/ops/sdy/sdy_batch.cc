#include <algorithm>

#include "cleave/ops/batch_util.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/sdy/family.h"

// Shardy's ops with one more dimension, for the examples: over the spmd axis of the transform, or
// left to propagation.
namespace cleave {
namespace {

ShardingSpec batched_spec(const BatchContext& c, const ShardingSpec& spec, int64_t dim) {
  return with_batch_dim(spec, dim, c.transform.spmd_axis(), c.node.name());
}

// The op on a value as it lies, with its own attributes brought to one more dimension at `dim`.
std::vector<Batched> batch_layout(const BatchContext& c) {
  const Batched& x = c.operands[0];
  AttrDict attrs = c.node.attrs;
  for (const NamedAttribute& entry : c.node.attrs.entries()) {
    if (const auto* sharding = entry.value.as<ShardingAttr>()) {
      attrs.set(entry.name, ShardingAttr{batched_spec(c, sharding->spec, x.dim)});
    } else if (const auto* lists = entry.value.as<AxisListsAttr>()) {
      if (lists->name == "sdy.axis_ref_list") continue;
      AxisListsAttr more = *lists;
      more.lists.insert(more.lists.begin() + x.dim, AxisList{});
      attrs.set(entry.name, std::move(more));
    } else if (const auto* moves = entry.value.as<AllToAllAttr>()) {
      AllToAllAttr moved = *moves;
      for (AllToAllMove& move : moved.moves) {
        move.source_dim += move.source_dim >= x.dim;
        move.target_dim += move.target_dim >= x.dim;
      }
      attrs.set(entry.name, std::move(moved));
    }
  }
  return emit_self(c, {x.value}, std::move(attrs), x.dim);
}

// Values of a group are sharded alike, so those with examples are a group of their own.
std::vector<Batched> batch_sharding_group(const BatchContext& c) {
  int64_t top = 0;
  const Graph& graph = c.b.graph();
  auto group_of = [](const Node& node) { return node.attrs.get_int("group_id"); };
  graph.walk([&](NodeId id) {
    if (graph.node(id).name() == c.node.name()) top = std::max(top, group_of(graph.node(id)));
  });
  AttrDict attrs = c.node.attrs;
  attrs.set("group_id", int_attr(top + 1 + group_of(c.node)));
  return emit_self(c, all_at_front(c), std::move(attrs));
}

// ---- regions ----

std::vector<ShardingSpec> given_specs(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  const auto* shardings = attribute ? attribute->as<ShardingsAttr>() : nullptr;
  return shardings ? shardings->specs : std::vector<ShardingSpec>{};
}

std::vector<std::string> manual_axes(const Node& node) {
  const Attribute* attribute = node.attrs.find("manual_axes");
  const auto* axes = attribute ? attribute->as<ManualAxesAttr>() : nullptr;
  return axes ? axes->axes : std::vector<std::string>{};
}

// manual_computation and named_computation: the body sees all examples. Along a manual computation
// they lie on the spmd axis as on a free one; without one, they are whole where nothing is free.
std::vector<Batched> batch_computation(const BatchContext& c) {
  Graph& graph = c.b.graph();
  const std::vector<std::string> manual = manual_axes(c.node);
  const std::string_view spmd = c.transform.spmd_axis();
  require(std::ranges::find(manual, spmd) == manual.end(), c.node,
          "the axis \"{}\" is manual here and cannot hold the examples as well; give vmap an axis "
          "that the computation leaves free",
          spmd);
  auto spec_with_examples = [&](const ShardingSpec& spec, int64_t dim) {
    ShardingSpec more = batched_spec(c, spec, dim);
    if (more.mesh && spmd.empty() && manual.size() == more.mesh->axes.size())
      more.dims[static_cast<size_t>(dim)].open = false;
    return more;
  };
  std::vector<ShardingSpec> in = given_specs(c.node, "in_shardings");
  std::vector<ShardingSpec> out = given_specs(c.node, "out_shardings");
  const NodeId holder = graph.add_node(c.node.name(), std::vector<ValueId>{}, {});
  GraphBuilder body(graph, graph.add_region(holder));
  const std::vector<ValueId> args = graph.region(c.node.regions[0]).args;
  std::vector<Batched> inner;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < args.size(); ++i) {
    const Batched& operand = c.operands[i];
    const Type type = graph.type(args[i]);
    inner.push_back(
        {graph.add_argument(body.region(),
                            operand.batched() ? with_dim(type, operand.dim, c.size) : type),
         operand.dim});
    operands.push_back(operand.value);
    if (operand.batched() && i < in.size()) in[i] = spec_with_examples(in[i], operand.dim);
  }
  const std::vector<Batched> returned = c.transform.inline_region(body, c.node.regions[0], inner);
  std::vector<Type> types;
  std::vector<ValueId> values;
  for (size_t i = 0; i < returned.size(); ++i) {
    const int64_t dim = returned[i].dim;
    types.push_back(returned[i].batched() ? with_dim(result_type(c, i), dim, c.size)
                                          : result_type(c, i));
    values.push_back(returned[i].value);
    if (returned[i].batched() && i < out.size()) out[i] = spec_with_examples(out[i], dim);
  }
  graph.append(body.region(), graph.add_node("sdy.return", std::move(values), {}));
  AttrDict attrs = c.node.attrs;
  attrs.erase("sdy.sharding");
  if (attrs.has("in_shardings")) attrs.set("in_shardings", ShardingsAttr{std::move(in)});
  if (attrs.has("out_shardings")) attrs.set("out_shardings", ShardingsAttr{std::move(out)});
  const NodeId node =
      graph.add_node(c.node.name(), std::move(operands), std::move(types), std::move(attrs));
  graph.node(node).regions = {body.region()};
  graph.node(holder).regions.clear();
  graph.region(body.region()).owner = node;
  graph.append(c.b.region(), node);
  std::vector<Batched> results;
  for (size_t i = 0; i < returned.size(); ++i)
    results.push_back({graph.node(node).results[i], returned[i].dim});
  return results;
}

}  // namespace

void add_sdy_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  for (const char* name :
       {"sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier", "sdy.data_flow_edge",
        "sdy.func_data_flow_edge", "sdy.all_gather", "sdy.all_slice", "sdy.all_to_all",
        "sdy.collective_permute", "sdy.all_reduce", "sdy.reduce_scatter",
        "sdy.sharded_to_unreduced", "sdy.replicated_to_unreduced"})
    add(name, batch_layout);
  add("sdy.sharding_group", batch_sharding_group);
  add("sdy.manual_computation", batch_computation);
  add("sdy.named_computation", batch_computation);
}

}  // namespace cleave
