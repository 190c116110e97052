#include "cleave/graph/value_sharding.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace cleave {
namespace {

bool is_sdy(const Node& node) { return node.name().starts_with("sdy."); }

std::optional<ShardingSpec> at(const std::vector<ShardingSpec>& specs, uint32_t index) {
  if (index < specs.size()) return specs[index];
  return std::nullopt;
}

MeshPtr any_mesh(const std::vector<ShardingSpec>& specs) {
  return specs.empty() ? nullptr : specs.front().mesh;
}

// Only the axes before (or from) the first one that is not manual, in every dimension.
ShardingSpec split_manual(const ShardingSpec& spec, const Node& node, bool keep_manual) {
  const std::vector<bool> manual = manual_axes_of(node, *spec.mesh);
  ShardingSpec result = spec;
  for (DimSpec& dim : result.dims) {
    auto free = std::find_if(dim.axes.begin(), dim.axes.end(),
                             [&](const AxisRef& ref) { return !manual[ref.axis]; });
    if (keep_manual) {
      dim.axes.erase(free, dim.axes.end());
    } else {
      dim.axes.erase(dim.axes.begin(), free);
    }
  }
  auto is_manual = [&](const AxisRef& ref) { return manual[ref.axis]; };
  std::erase_if(result.replicated, is_manual);
  std::erase_if(result.partial, is_manual);
  return result;
}

}  // namespace

std::string_view own_sharding_attr(const Node& node) {
  if (!is_sdy(node)) return {};
  const std::string_view op = std::string_view(node.name()).substr(4);
  if (op == "sharding_constraint" || op == "reshard" || op == "data_flow_edge") return "sharding";
  if (op == "all_gather" || op == "all_slice" || op == "all_to_all" || op == "collective_permute" ||
      op == "all_reduce" || op == "reduce_scatter" || op == "sharded_to_unreduced" ||
      op == "replicated_to_unreduced")
    return "out_sharding";
  return {};
}

int function_of(const Graph& graph, RegionId region) {
  for (size_t i = 0; i < graph.functions.size(); ++i)
    if (graph.functions[i].body == region) return static_cast<int>(i);
  return -1;
}

int main_function(const Graph& graph) {
  if (graph.functions.size() == 1) return 0;
  for (size_t i = 0; i < graph.functions.size(); ++i)
    if (graph.functions[i].name == "main") return static_cast<int>(i);
  return -1;
}

const ShardingSpec* sharding_in(const AttrDict& attrs) {
  const Attribute* attr = attrs.find(kShardingAttr);
  const ShardingAttr* sharding = attr ? attr->as<ShardingAttr>() : nullptr;
  return sharding ? &sharding->spec : nullptr;
}

std::vector<ShardingSpec> get_shardings(const Node& node, std::string_view name) {
  const Attribute* attr = node.attrs.find(name);
  if (!attr) return {};
  if (const auto* per_value = attr->as<ShardingsAttr>()) return per_value->specs;
  if (const auto* single = attr->as<ShardingAttr>()) return {single->spec};
  return {};
}

void set_shardings(Node& node, std::string_view attr, std::vector<ShardingSpec> specs) {
  node.attrs.set(attr, ShardingsAttr{std::move(specs)});
}

std::optional<ShardingSpec> get_sharding(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.producer.valid()) {
    const Node& node = graph.node(value.producer);
    if (node.name() == "sdy.manual_computation" || node.name() == "sdy.named_computation")
      return at(get_shardings(node, "out_shardings"), value.index);
    const std::string_view own = own_sharding_attr(node);
    return at(get_shardings(node, own.empty() ? kShardingAttr : own), value.index);
  }
  const Region& region = graph.region(value.region);
  if (!region.owner.valid()) {
    const int function = function_of(graph, value.region);
    if (function < 0 || value.index >= graph.functions[function].arg_attrs.size())
      return std::nullopt;
    const ShardingSpec* spec = sharding_in(graph.functions[function].arg_attrs[value.index]);
    return spec ? std::optional(*spec) : std::nullopt;
  }
  const Node& owner = graph.node(region.owner);
  if (owner.name() == "sdy.named_computation")
    return at(get_shardings(owner, "in_shardings"), value.index);
  if (owner.name() == "sdy.manual_computation") {
    const auto spec = at(get_shardings(owner, "in_shardings"), value.index);
    return spec ? std::optional(erase_manual_axes(*spec, owner)) : std::nullopt;
  }
  return std::nullopt;
}

void set_sharding(Graph& graph, ValueId id, const ShardingSpec& spec) {
  const Value& value = graph.value(id);
  auto set_one = [&](Node& node, std::string_view attr, std::span<const ValueId> values) {
    std::vector<ShardingSpec> specs = get_shardings(node, attr);
    if (specs.size() < values.size()) {
      const MeshPtr mesh = specs.empty() ? spec.mesh : any_mesh(specs);
      for (size_t i = specs.size(); i < values.size(); ++i)
        specs.push_back(ShardingSpec::fully_open(mesh, graph.type(values[i]).rank()));
    }
    specs[value.index] = spec;
    set_shardings(node, attr, std::move(specs));
  };
  if (value.producer.valid()) {
    Node& node = graph.node(value.producer);
    const std::string_view own = own_sharding_attr(node);
    if (!own.empty()) {
      node.attrs.set(own, ShardingAttr{spec});
    } else if (node.name() == "sdy.manual_computation" || node.name() == "sdy.named_computation") {
      set_one(node, "out_shardings", node.results);
    } else {
      set_one(node, kShardingAttr, node.results);
    }
    return;
  }
  const Region& region = graph.region(value.region);
  if (!region.owner.valid()) {
    const int function = function_of(graph, value.region);
    if (function >= 0)
      graph.functions[function].arg_attrs[value.index].set(kShardingAttr, ShardingAttr{spec});
    return;
  }
  Node& owner = graph.node(region.owner);
  if (owner.name() == "sdy.named_computation") {
    set_one(owner, "in_shardings", region.args);
  } else if (owner.name() == "sdy.manual_computation") {
    std::vector<ShardingSpec> specs = get_shardings(owner, "in_shardings");
    specs[value.index] = with_manual_axes(specs[value.index], spec, owner);
    set_shardings(owner, "in_shardings", std::move(specs));
  }
}

void transform_shardings(Graph& graph, const ChangeSharding& change) {
  auto change_attrs = [&](AttrDict& attrs) {
    if (const ShardingSpec* spec = sharding_in(attrs))
      attrs.set(kShardingAttr, ShardingAttr{change(*spec)});
  };
  std::unordered_map<const void*, std::pair<Attribute, Attribute>> changed_attrs;
  for (Function& function : graph.functions) {
    for (AttrDict& attrs : function.arg_attrs) change_attrs(attrs);
    for (AttrDict& attrs : function.result_attrs) change_attrs(attrs);
    if (!function.body.valid()) continue;
    graph.walk(function.body, [&](NodeId id) {
      Node& node = graph.node(id);
      for (std::string_view name :
           {std::string_view("in_shardings"), std::string_view("out_shardings"), kShardingAttr,
            own_sharding_attr(node)}) {
        const Attribute* attr = name.empty() ? nullptr : node.attrs.find(name);
        if (!attr) continue;
        // Many nodes share one attribute: change it once, and share the result.
        const Attribute before = *attr;
        if (auto it = changed_attrs.find(&before.storage()); it != changed_attrs.end()) {
          node.attrs.set(name, it->second.second);
          continue;
        }
        if (const auto* single = attr->as<ShardingAttr>()) {
          node.attrs.set(name, ShardingAttr{change(single->spec)});
        } else if (const auto* per_value = attr->as<ShardingsAttr>()) {
          ShardingsAttr changed = *per_value;
          for (ShardingSpec& spec : changed.specs) spec = change(spec);
          node.attrs.set(name, std::move(changed));
        } else {
          continue;
        }
        changed_attrs.emplace(&before.storage(), std::pair(before, *node.attrs.find(name)));
      }
    });
  }
}

std::vector<bool> manual_axes_of(const Node& node, const Mesh& mesh) {
  std::vector<bool> manual(mesh.axes.size());
  const Attribute* attr = node.attrs.find("manual_axes");
  if (const ManualAxesAttr* axes = attr ? attr->as<ManualAxesAttr>() : nullptr)
    for (const std::string& name : axes->axes)
      if (const auto axis = mesh.find_axis(name)) manual[*axis] = true;
  return manual;
}

ShardingSpec erase_manual_axes(const ShardingSpec& spec, const Node& node) {
  return split_manual(spec, node, /*keep_manual=*/false);
}

ShardingSpec with_manual_axes(const ShardingSpec& outer, const ShardingSpec& inner,
                              const Node& node) {
  ShardingSpec result = split_manual(outer, node, /*keep_manual=*/true);
  result.mesh = inner.mesh;
  for (size_t d = 0; d < result.dims.size() && d < inner.dims.size(); ++d) {
    DimSpec& dim = result.dims[d];
    dim.axes.insert(dim.axes.end(), inner.dims[d].axes.begin(), inner.dims[d].axes.end());
    dim.open = inner.dims[d].open;
    dim.priority = inner.dims[d].priority;
  }
  result.replicated = outer.replicated;
  result.partial = outer.partial;
  result.partial_op = outer.partial_op;
  return result;
}

}  // namespace cleave
