#include "cleave/autoshard/shard_map.h"

#include <algorithm>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/graph/op_def.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/collective_listener.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/record.h"
#include "cleave/spmd/op_layouts.h"
#include "cleave/spmd/partition.h"
#include "cleave/transforms/region_copy.h"
#include "cleave/transforms/variation.h"

namespace cleave {

namespace shard_map_detail {
namespace {

using Specs = std::vector<std::optional<PartitionSpec>>;

std::set<int> axes_of(const ShardingSpec& spec) {
  std::set<int> axes;
  for (const DimSpec& dim : spec.dims)
    for (const AxisRef& ref : dim.axes) axes.insert(static_cast<int>(ref.axis));
  for (const AxisRef& ref : spec.partial) axes.insert(static_cast<int>(ref.axis));
  return axes;
}

bool names_an_axis(const Specs& specs) {
  for (const auto& spec : specs) {
    if (!spec) continue;
    if (!spec->partial.empty()) return true;
    for (const SpecEntry& entry : spec->entries)
      if (!entry.axes.empty()) return true;
  }
  return false;
}

// Whether the function itself asks for layouts.
bool asks_for_layouts(const Graph& graph) {
  bool found = false;
  graph.walk([&](NodeId id) {
    for (const NamedAttribute& attr : graph.node(id).attrs.entries())
      found |= attr.value.as<ShardingAttr>() || attr.value.as<ShardingsAttr>();
  });
  return found;
}

void take_away(AxisList& axes, const ShardingSpec& used) {
  std::erase_if(axes, [&](const AxisRef& axis) {
    return overlaps_any(axis, used.partial) || overlaps_any(axis, used.replicated) ||
           std::ranges::any_of(used.dims,
                               [&](const DimSpec& dim) { return overlaps_any(axis, dim.axes); });
  });
}

// Results of an op take no axis that one of its operands is to keep replicated, unless they were
// given it. Shardy leaves that to each tensor, so it is written to the results before propagation.
class ReplicationHolder {
 public:
  ReplicationHolder(Graph& graph, const MeshPtr& mesh) : graph_(graph), mesh_(mesh) {}

  void run() {
    const Function& main = graph_.functions[0];
    const std::vector<ValueId> args = graph_.region(main.body).args;
    for (size_t i = 0; i < args.size() && i < main.arg_attrs.size(); ++i)
      hold(args[i], main.arg_attrs[i].find("sdy.sharding"));
    for (NodeId id : std::vector<NodeId>(graph_.region(main.body).nodes)) visit(graph_.node(id));
  }

 private:
  void hold(ValueId value, const Attribute* attr) {
    const auto* sharding = attr ? attr->as<ShardingAttr>() : nullptr;
    if (sharding && !sharding->spec.replicated.empty()) held_[value] = sharding->spec.replicated;
  }

  void visit(Node& node) {
    if (node.def->has(kSameValue)) return hold(node.results[0], node.attrs.find("sharding"));
    if (node.def->has(kTerminator) || node.def->has(kDataFlow) || held_.empty()) return;
    if (!std::ranges::all_of(node.results,
                             [&](ValueId r) { return is_ranked_tensor(graph_.type(r)); }))
      return;
    AxisList axes;
    for (ValueId operand : node.operands)
      if (const auto it = held_.find(operand); it != held_.end())
        axes.insert(axes.end(), it->second.begin(), it->second.end());
    if (axes.empty()) return;
    std::ranges::sort(axes);
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    ShardingsAttr specs;
    if (const Attribute* attr = node.attrs.find("sdy.sharding"))
      if (const auto* given = attr->as<ShardingsAttr>()) specs = *given;
    for (size_t i = specs.specs.size(); i < node.results.size(); ++i)
      specs.specs.push_back(ShardingSpec::fully_open(mesh_, graph_.type(node.results[i]).rank()));
    for (ShardingSpec& spec : specs.specs) {
      AxisList more = axes;
      take_away(more, spec);
      spec.replicated.insert(spec.replicated.end(), more.begin(), more.end());
      std::ranges::sort(spec.replicated);
      merge_neighbours(spec.replicated);
    }
    node.attrs.set("sdy.sharding", std::move(specs));
  }

  Graph& graph_;
  MeshPtr mesh_;
  std::map<ValueId, AxisList> held_;
};

// Results say where they lie, and not why.
void drop_wishes(Function& function) {
  for (AttrDict& attrs : function.result_attrs) {
    const Attribute* attr = attrs.find("sdy.sharding");
    const auto* sharding = attr ? attr->as<ShardingAttr>() : nullptr;
    if (!sharding) continue;
    ShardingSpec spec = sharding->spec;
    spec.replicated.clear();
    for (DimSpec& dim : spec.dims) dim.priority.reset();
    attrs.set("sdy.sharding", ShardingAttr{std::move(spec)});
  }
}

[[noreturn]] void throw_nothing_said(const Mesh& mesh, const char* otherwise) {
  throw_user(
      "shard_map: nothing says how to divide the work over {}: every device would do all of it; "
      "give .in or .out a spec that names an axis{}",
      to_string(mesh), otherwise);
}

}  // namespace

Tensor placed(const Tensor& leaf, const std::optional<PartitionSpec>& spec, const MeshPtr& mesh) {
  if (!leaf.valid())
    throw_user("shard_map: an argument is, or holds, an empty Tensor: assign it a value first");
  if (!spec) return leaf;
  return leaf.with_sharding(to_sharding(*spec, mesh, leaf.shape()));
}

std::vector<Tensor> run_auto(Trace trace, std::span<const Tensor> leaves, const MeshPtr& mesh,
                             const Specs& in, const Specs& out) {
  Graph& graph = trace.graph;
  const bool asks = asks_for_layouts(graph);
  graph.meshes = {mesh};
  Function& main = graph.functions[0];
  main.arg_attrs.resize(main.arg_types.size());
  for (size_t i = 0; i < in.size(); ++i)  // the layouts of tensors do not say what is open
    if (in[i])
      main.arg_attrs[i].set("sdy.sharding",
                            ShardingAttr{to_sharding(*in[i], mesh, main.arg_types[i].shape)});
  main.result_attrs.resize(main.result_types.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i])
      main.result_attrs[i].set(
          "sdy.sharding", ShardingAttr{to_sharding(*out[i], mesh, main.result_types[i].shape)});
  ReplicationHolder(graph, mesh).run();
  run_propagation_pipeline(graph,
                           {.keep_uneven = true, .runs_along = runs_along, .verified = true});
  drop_wishes(graph.functions[0]);
  std::vector<Tensor> args(leaves.begin(), leaves.end());
  args.insert(args.end(), trace.captures.begin(), trace.captures.end());
  const bool said = asks || std::ranges::any_of(out, [](const auto& s) { return s.has_value(); }) ||
                    std::ranges::any_of(args, [](const Tensor& a) { return a.mesh() != nullptr; });
  if (!said)
    throw_nothing_said(*mesh,
                       " (P() for a tensor that is the same on all devices), or shard a "
                       "tensor that the function uses");
  std::vector<Tensor> results = record_function(graph, args);
  for (size_t i = 0; i < out.size(); ++i) results[i] = placed(results[i], out[i], mesh);
  return results;
}

Tensor local_like(const Tensor& leaf, const std::optional<PartitionSpec>& spec,
                  const MeshPtr& mesh) {
  if (!leaf.valid())
    throw_user("shard_map: an argument is, or holds, an empty Tensor: assign it a value first");
  const ShardingSpec sharding = to_sharding(spec.value_or(P()), mesh, leaf.shape());
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    int64_t parts = 1;
    for (const AxisRef& ref : sharding.dims[d].axes) parts *= ref.size;
    if (leaf.shape()[d] % parts != 0)
      throw_user(
          "shard_map: dimension {} of tensor<{}> is no multiple of its {} shards; manual functions "
          "see one shape on all devices",
          d, to_string(leaf.shape()), parts);
  }
  return zeros(local_shape(sharding, leaf.shape()), leaf.dtype());
}

Tensor local_position() { return zeros({1}, DType::I32); }

std::vector<Tensor> run_manual(const Trace& body, std::span<const Tensor> leaves, const Specs& in,
                               const Specs& out, const MeshPtr& mesh, bool check) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh->axes) axes.push_back(axis.name);
  std::vector<Tensor> operands{iota({mesh->num_devices()}, 0)};
  operands.insert(operands.end(), leaves.begin(), leaves.end());
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  const Function& function = body.graph.functions[0];
  ShardingsAttr in_specs, out_specs;
  for (size_t i = 0; i < operands.size(); ++i)
    in_specs.specs.push_back(to_sharding(i == 0           ? P(SpecEntry(axes))
                                         : i <= in.size() ? in[i - 1].value_or(P())
                                                          : P(),
                                         mesh, operands[i].shape()));
  const ValueId position = body.graph.region(function.body).args[0];
  if (!names_an_axis(in) && !names_an_axis(out) && !calls_collectives(body.graph) &&
      UseMap(body.graph).uses(position).empty())
    throw_nothing_said(*mesh, ", or let the function call collectives or axis_index");
  std::vector<Type> types;
  for (size_t i = 0; i < out.size(); ++i) {
    Type type = function.result_types[i];
    const PartitionSpec spec = out[i].value_or(P());
    type.shape = compute_global_shape(type.shape, *mesh, spec);
    out_specs.specs.push_back(to_sharding(spec, mesh, type.shape));
    types.push_back(std::move(type));
  }
  if (check) {
    Variation variation(body.graph, *mesh);
    const std::vector<ValueId> args = body.graph.region(function.body).args;
    for (size_t i = 0; i < args.size(); ++i) variation.set(args[i], axes_of(in_specs.specs[i]));
    variation.run(function.body);
    const Node& end = body.graph.node(body.graph.terminator(function.body));
    for (size_t i = 0; i < end.operands.size(); ++i) {
      const std::set<int> said = axes_of(out_specs.specs[i]);
      for (int axis : variation.of(end.operands[i]))
        if (!said.contains(axis) && mesh->axes[axis].size > 1)
          throw_user(
              "shard_map: result {} ({}) may differ along axis \"{}\", but its spec says that it "
              "is the same on all devices there; reduce or gather it over \"{}\" (all_reduce, "
              "all_gather), or name the axis in out",
              i, body.result_names[i].empty() ? "the value" : body.result_names[i],
              mesh->axes[axis].name, mesh->axes[axis].name);
    }
  }
  Graph graph;
  graph.meshes = {mesh};
  std::vector<Type> arg_types;
  for (const Tensor& operand : operands) arg_types.push_back(operand.type());
  GraphBuilder b = GraphBuilder::function(graph, "main", arg_types);
  AttrDict attrs;
  attrs.set("in_shardings", std::move(in_specs));
  attrs.set("out_shardings", std::move(out_specs));
  attrs.set("manual_axes", ManualAxesAttr{std::move(axes)});
  const std::vector<ValueId> given = graph.region(b.region()).args;
  const NodeId node = graph.add_node("sdy.manual_computation", given, types, std::move(attrs));
  const RegionId region = graph.add_region(node);
  std::vector<ValueId> local;
  for (const Type& type : function.arg_types) local.push_back(graph.add_argument(region, type));
  end_region(graph, region, "sdy.return", splice(body.graph, function, graph, region, local));
  graph.append(b.region(), node);
  b.finish(std::vector<ValueId>(graph.node(node).results));
  return record_function(std::move(graph), operands);
}

}  // namespace shard_map_detail
}  // namespace cleave
