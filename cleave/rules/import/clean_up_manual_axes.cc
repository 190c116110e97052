#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {
namespace {

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

}  // namespace

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

}  // namespace cleave
