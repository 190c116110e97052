#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/propagation_tables.h"
#include "cleave/rules/sharding_passes.h"

namespace cleave {
namespace {

std::string fresh_mesh_name(const Graph& graph, std::string_view base) {
  std::string name(base);
  for (int i = 0; graph.find_mesh(name); ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

// The parts of the whole axes in `manual` that `used` does not touch, in mesh order.
AxisList unused_parts(const AxisList& manual, AxisList used) {
  std::sort(used.begin(), used.end());
  AxisList parts;
  for (AxisRef axis : manual) {
    bool rest = true;
    for (const AxisRef& other : used) {
      if (!overlaps(axis, other)) continue;
      if (auto prefix = prefix_without_overlap(axis, other)) parts.push_back(*prefix);
      const auto suffix = suffix_without_overlap(axis, other);
      if (!suffix) {
        rest = false;
        break;
      }
      axis = *suffix;
    }
    if (rest) parts.push_back(axis);
  }
  return parts;
}

// The largest prefix of a dimension's axes that divides its size.
void make_divisible(DimSpec& dim, int64_t size) {
  if (size % total_size(dim.axes) == 0) return;
  AxisList axes;
  for (const AxisRef& axis : dim.axes) {
    const int64_t part = std::gcd(int64_t{axis.size}, size);
    if (part == 1) break;
    axes.push_back({axis.axis, axis.pre, static_cast<int32_t>(part)});
    if (part != axis.size) break;
    size /= part;
  }
  dim.axes = std::move(axes);
  dim.priority.reset();
}

ShardingSpec divisible(ShardingSpec spec, const Type& type) {
  if (!type.is_tensor() || !type.has_static_shape()) return spec;
  for (size_t d = 0; d < spec.dims.size(); ++d) make_divisible(spec.dims[d], type.shape[d]);
  return spec;
}

void make_divisible(AttrDict& attrs, const Type& type) {
  if (const ShardingSpec* spec = sharding_in(attrs))
    attrs.set(kShardingAttr, ShardingAttr{divisible(*spec, type)});
}

}  // namespace

void lift_inlined_meshes(Graph& graph) {
  std::vector<MeshPtr> kept;
  auto find_equal = [&](const Mesh& mesh) -> MeshPtr {
    for (const MeshPtr& known : kept)
      if (known->same_devices(mesh)) return known;
    return nullptr;
  };
  for (const MeshPtr& mesh : graph.meshes)
    if (!find_equal(*mesh)) kept.push_back(mesh);
  graph.meshes = kept;
  transform_shardings(graph, [&](const ShardingSpec& spec) {
    ShardingSpec lifted = spec;
    lifted.mesh = find_equal(*spec.mesh);
    if (!lifted.mesh) {
      Mesh mesh = *spec.mesh;
      const std::string base = mesh.is_maximal()
                                   ? fmt::format("maximal_mesh_{}", mesh.device_ids[0])
                               : mesh.is_empty() ? std::string("empty_mesh")
                                                 : std::string("mesh");
      mesh.name = fresh_mesh_name(graph, base);
      lifted.mesh = std::make_shared<const Mesh>(std::move(mesh));
      kept.push_back(lifted.mesh);
      graph.meshes.push_back(lifted.mesh);
    }
    return lifted;
  });
}

void remove_size_one_axes(Graph& graph) {
  const bool any = std::any_of(graph.meshes.begin(), graph.meshes.end(), [](const MeshPtr& mesh) {
    return std::any_of(mesh->axes.begin(), mesh->axes.end(),
                       [](const MeshAxis& axis) { return axis.size == 1; });
  });
  if (!any) return;
  auto is_one = [](const AxisRef& axis) { return axis.size == 1; };
  transform_shardings(graph, [&](const ShardingSpec& spec) {
    ShardingSpec result = spec;
    for (DimSpec& dim : result.dims) {
      std::erase_if(dim.axes, is_one);
      if (dim.axes.empty() && !dim.open) dim.priority.reset();
    }
    std::erase_if(result.replicated, is_one);
    std::erase_if(result.partial, is_one);
    return result;
  });
}

void clean_up_manual_axes(Graph& graph) {
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is<op::ManualComputation>(node)) return;
    const auto in = get_shardings(node, "in_shardings"), out = get_shardings(node, "out_shardings");
    const Attribute* attr = node.attrs.find("manual_axes");
    const ManualAxesAttr* manual = attr ? attr->as<ManualAxesAttr>() : nullptr;
    if (in.empty() && out.empty()) {
      if (manual && !manual->axes.empty() && graph.region(node.regions[0]).nodes.size() > 1)
        throw_user(
            "'sdy.manual_computation' op has manual_axes when there are no in/out shardings "
            "and the body is not empty.");
      return;
    }
    MeshPtr mesh;
    for (const auto* specs : {&in, &out})
      for (const ShardingSpec& spec : *specs)
        if (!mesh || mesh->is_empty()) mesh = spec.mesh;
    ManualAxesAttr sorted;
    AxisList axes;
    if (manual) {
      for (const std::string& name : manual->axes) axes.push_back(whole_axis(*mesh, name));
      std::sort(axes.begin(), axes.end());
      for (const AxisRef& axis : axes) sorted.axes.push_back(mesh->axes[axis.axis].name);
      node.attrs.set("manual_axes", sorted);
    }
    auto complete = [&](std::string_view name, std::vector<ShardingSpec> specs,
                        const std::vector<ValueId>& values) {
      bool changed = false;
      for (size_t i = 0; i < specs.size(); ++i) {
        if (!graph.type(values[i]).is_tensor()) continue;
        AxisList used = specs[i].replicated;
        used.insert(used.end(), specs[i].partial.begin(), specs[i].partial.end());
        for (const DimSpec& dim : specs[i].dims)
          used.insert(used.end(), dim.axes.begin(), dim.axes.end());
        const AxisList unused = unused_parts(axes, used);
        if (unused.empty()) continue;
        specs[i].mesh = mesh;
        specs[i].replicated.insert(specs[i].replicated.end(), unused.begin(), unused.end());
        std::sort(specs[i].replicated.begin(), specs[i].replicated.end());
        merge_neighbours(specs[i].replicated);
        changed = true;
      }
      if (changed) set_shardings(node, name, std::move(specs));
    };
    complete("in_shardings", in, node.operands);
    complete("out_shardings", out, node.results);
  });
}

void close_shardings(Graph& graph) {
  transform_shardings(graph, [](const ShardingSpec& spec) {
    ShardingSpec closed = spec;
    closed.replicated.clear();
    for (DimSpec& dim : closed.dims) {
      dim.open = false;
      if (dim.axes.empty()) dim.priority.reset();
    }
    return closed;
  });
}

void convert_constraints_to_reshards(Graph& graph) {
  const OpDef* reshard = find_op("sdy.reshard");
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is<op::ShardingConstraint>(node)) return;
    node.name = "sdy.reshard";
    node.def = reshard;
  });
}

void make_inputs_and_outputs_divisible(Graph& graph) {
  for (Function& function : graph.functions) {
    for (size_t i = 0; i < function.arg_attrs.size(); ++i)
      make_divisible(function.arg_attrs[i], function.arg_types[i]);
    for (size_t i = 0; i < function.result_attrs.size(); ++i)
      make_divisible(function.result_attrs[i], function.result_types[i]);
  }
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    auto update = [&](std::string_view attr, const std::vector<ValueId>& values) {
      std::vector<ShardingSpec> specs = get_shardings(node, attr);
      if (specs.empty()) return;
      for (size_t i = 0; i < specs.size(); ++i)
        specs[i] = divisible(std::move(specs[i]), graph.type(values[i]));
      set_shardings(node, attr, std::move(specs));
    };
    if (is<op::Call>(node)) update(kShardingAttr, node.results);
    if (is<op::ManualComputation>(node)) {
      // Only the free axes may go: the arguments inside have local shapes.
      std::vector<ShardingSpec> specs = get_shardings(node, "in_shardings");
      const std::vector<ValueId>& args = graph.region(node.regions[0]).args;
      for (size_t i = 0; i < specs.size(); ++i)
        specs[i] = with_manual_axes(
            specs[i], divisible(erase_manual_axes(specs[i], node), graph.type(args[i])), node);
      if (!specs.empty()) set_shardings(node, "in_shardings", std::move(specs));
      update("out_shardings", node.results);
    }
  });
}

void remove_sub_axes_of_inputs_and_outputs(Graph& graph) {
  const int main = main_function(graph);
  if (main < 0) return;
  auto update = [](AttrDict& attrs) {
    const ShardingSpec* old = sharding_in(attrs);
    if (!old) return;
    ShardingSpec spec = *old;
    for (DimSpec& dim : spec.dims) {
      if (!dim.open) continue;
      auto part = std::find_if(dim.axes.begin(), dim.axes.end(),
                               [&](const AxisRef& axis) { return !is_whole(axis, *spec.mesh); });
      dim.axes.erase(part, dim.axes.end());
    }
    attrs.set(kShardingAttr, ShardingAttr{std::move(spec)});
  };
  for (AttrDict& attrs : graph.functions[main].arg_attrs) update(attrs);
  for (AttrDict& attrs : graph.functions[main].result_attrs) update(attrs);
}

void drop_sharding_rules(Graph& graph) {
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    const Attribute* attr = node.attrs.find(kShardingRuleAttr);
    const auto* rule = attr ? attr->as<ShardingRuleAttr>() : nullptr;
    if (rule && !rule->rule->is_custom) node.attrs.erase(kShardingRuleAttr);
  });
}

void drop_shardings_and_meshes(Graph& graph) {
  for (Function& function : graph.functions) {
    for (AttrDict& attrs : function.arg_attrs) attrs.erase(kShardingAttr);
    for (AttrDict& attrs : function.result_attrs) attrs.erase(kShardingAttr);
  }
  graph.walk([&](NodeId id) { graph.node(id).attrs.erase(kShardingAttr); });
  graph.meshes.clear();
}

void remove_dead_ops(Graph& graph) {
  std::vector<uint32_t> uses(graph.num_values());
  std::vector<NodeId> order;
  graph.walk([&](NodeId id) {
    order.push_back(id);
    for (ValueId operand : graph.node(id).operands) ++uses[operand.index];
  });
  GraphRewrite rewrite(graph);
  bool any = false;
  std::vector<uint8_t> released(graph.num_nodes()), inside_dead(graph.num_nodes());
  // Each node once: one that is dead by itself may stand inside another that is.
  auto release = [&](auto&& self, NodeId id) -> void {
    if (std::exchange(released[id.index], 1)) return;
    for (ValueId operand : graph.node(id).operands) --uses[operand.index];
    for (RegionId region : graph.node(id).regions)
      for (NodeId inner : graph.region(region).nodes) self(self, inner);
  };
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = graph.node(*it);
    if (inside_dead[it->index] || !is_removable(graph, node)) continue;
    if (std::any_of(node.results.begin(), node.results.end(),
                    [&](ValueId result) { return uses[result.index] != 0; }))
      continue;
    release(release, *it);
    for (RegionId region : node.regions)
      graph.walk(region, [&](NodeId inner) { inside_dead[inner.index] = 1; });
    rewrite.erase(*it);
    any = true;
  }
  if (any) rewrite.apply();
}

std::vector<std::string> populate_sharding_rules(Graph& graph, bool conservative) {
  std::vector<std::string> messages;
  std::set<std::string> unknown;
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (const auto rule = propagation_rule(graph, node, conservative)) {
      if (!node.attrs.has(kShardingRuleAttr))
        node.attrs.set(kShardingRuleAttr, ShardingRuleAttr{rule});
    } else if (!node.def && !node.name.ends_with(".return") && unknown.insert(node.name).second) {
      messages.push_back(fmt::format("op '{}' has no sharding rule", node.name));
    }
  });
  return messages;
}

}  // namespace cleave
