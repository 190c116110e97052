#include <numeric>
#include <utility>

#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {
namespace {

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

}  // namespace cleave
