#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/ops/op.h"
#include "cleave/spmd/manual_border.h"
#include "cleave/spmd/partitioner.h"

namespace cleave {

void Partitioner::visit_call(NodeId id, RegionId target) {
  const Node& node = source_.node(id);
  const Function& function = callee_with_body(source_, node);
  std::vector<ShardingSpec> args;
  for (ValueId operand : node.operands) args.push_back(spec_of(current(operand)));
  const Special special = specialize(function, args, wanted_results(node), function.name);
  std::vector<ValueId> operands;
  for (ValueId operand : node.operands) operands.push_back(use_as_is(operand, target));
  std::vector<ShardingSpec> results;
  std::vector<Type> types;
  for (size_t i = 0; i < node.results.size(); ++i) {
    results.push_back(special.results[i].spec);
    types.push_back(source_.result_type(node, i));
  }
  AttrDict attrs;
  attrs.set("callee", SymbolRefAttr{special.name, {}});
  const NodeId call =
      add("func.call", std::move(operands), std::move(types), std::move(attrs), results, target);
  for (size_t i = 0; i < node.results.size(); ++i)
    define(node.results[i], program_.graph.node(call).results[i]);
}

void Partitioner::visit_while(NodeId id, RegionId target) {
  const Node& node = source_.node(id);
  const Wanted wanted = wanted_results(node);
  std::vector<ShardingSpec> carry;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    carry.push_back(wanted[i] ? *wanted[i] : complete_spec(node.operands[i]));
    operands.push_back(use(node.operands[i], carry[i], target));
  }
  const NodeId loop = emit(node, std::move(operands), carry, target);
  for (size_t r = 0; r < node.regions.size(); ++r) {
    const size_t mark = made_.size();
    const RegionId region = program_.graph.add_region(loop);
    const std::vector<ValueId>& args = source_.region(node.regions[r]).args;
    for (size_t i = 0; i < args.size(); ++i) add_argument(region, args[i], carry[i]);
    region_nodes(node.regions[r], region);
    if (r == 0) {
      const Node& end = source_.node(source_.terminator(node.regions[0]));
      terminate(node.regions[0], region, {replicated(source_.operand_type(end, 0))});
    } else {
      terminate(node.regions[r], region, carry);
    }
    forget(mark);
  }
  for (size_t i = 0; i < node.results.size(); ++i)
    define(node.results[i], program_.graph.node(loop).results[i]);
}

void Partitioner::visit_branches(NodeId id, RegionId target) {
  const Node& node = source_.node(id);
  std::vector<ValueId> operands;
  for (ValueId operand : node.operands)
    operands.push_back(use(operand, replicated(source_.type(operand)), target));
  const NodeId branch = emit(node, std::move(operands), {}, target);
  const Wanted wanted = wanted_results(node);
  std::vector<ShardingSpec> results;
  for (size_t r = 0; r < node.regions.size(); ++r) {
    const size_t mark = made_.size();
    const RegionId region = program_.graph.add_region(branch);
    region_nodes(node.regions[r], region);
    if (r == 0) {
      const Node& end = source_.node(source_.terminator(node.regions[0]));
      for (size_t i = 0; i < end.operands.size(); ++i)
        results.push_back(wanted[i] ? *wanted[i] : complete_spec(end.operands[i]));
    }
    terminate(node.regions[r], region, results);
    forget(mark);
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId value = program_.graph.node(branch).results[i];
    set_layout(value, results[i]);
    define(node.results[i], value);
  }
}

void Partitioner::visit_barrier(NodeId id, RegionId target) {
  const Node& node = source_.node(id);
  std::vector<ValueId> operands;
  std::vector<ShardingSpec> results;
  for (ValueId operand : node.operands) {
    operands.push_back(use_as_is(operand, target));
    results.push_back(spec_of(operands.back()));
  }
  if (results.size() != node.results.size()) return visit_plain(id, target);
  const NodeId emitted = emit(node, std::move(operands), results, target);
  define_results(node, program_.graph.node(emitted).results, wanted_results(node), target);
}

namespace {

// Without the manual axes: the layout inside, where shapes are already local along those.
ShardingSpec inside(ShardingSpec spec, const AxisList& manual) {
  for (DimSpec& dim : spec.dims) dim.axes = without(dim.axes, manual);
  spec.replicated.clear();
  spec.partial = without(spec.partial, manual);
  return spec;
}

AxisList manual_axes(const Node& node, const Mesh& mesh) {
  const Attribute* axes = node.attrs.find("manual_axes");
  const auto* names = axes ? axes->as<ManualAxesAttr>() : nullptr;
  if (!names)
    throw_user("sdy.manual_computation needs in_shardings, out_shardings and manual_axes");
  AxisList manual;
  for (const std::string& name : names->axes) manual.push_back(whole_axis(mesh, name));
  return manual;
}

}  // namespace

ShardingSpec manual_border(const Node& manual, ShardingSpec spec, const Shape& shape) {
  if (!spec.mesh || is_even(spec, shape)) return spec;
  const AxisList axes = manual_axes(manual, *spec.mesh);
  for (DimSpec& dim : spec.dims) dim.axes = intersection(dim.axes, axes);
  return spec;
}

void Partitioner::visit_manual(NodeId id, RegionId target) {
  const Node& node = source_.node(id);
  const Attribute* in = node.attrs.find("in_shardings");
  const Attribute* out = node.attrs.find("out_shardings");
  const auto* in_specs = in ? in->as<ShardingsAttr>() : nullptr;
  const auto* out_specs = out ? out->as<ShardingsAttr>() : nullptr;
  if (!in_specs || !out_specs)
    throw_user("sdy.manual_computation needs in_shardings, out_shardings and manual_axes");
  for (const auto* specs : {in_specs, out_specs})
    for (const ShardingSpec& spec : specs->specs) usable(spec, node.name());
  const AxisList manual = manual_axes(node, *program_.mesh);

  const std::vector<ValueId>& args = source_.region(node.regions[0]).args;
  for (size_t i = 0; i < args.size(); ++i) {
    const ShardingSpec spec =
        manual_border(node, in_specs->specs[i], source_.operand_type(node, i).shape);
    const ValueId whole = use(node.operands[i], spec, target);
    const NodeId enter = add(op::EnterManual::kName, {whole}, {source_.type(args[i])}, {},
                             {inside(spec, manual)}, target);
    define(args[i], program_.graph.node(enter).results[0]);
  }
  region_nodes(node.regions[0], target);
  const Node& end = source_.node(source_.terminator(node.regions[0]));
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ShardingSpec spec =
        manual_border(node, out_specs->specs[i], source_.result_type(node, i).shape);
    const ValueId local = use(end.operands[i], inside(spec, manual), target);
    const NodeId leave =
        add(op::LeaveManual::kName, {local}, {source_.result_type(node, i)}, {}, {spec}, target);
    define(node.results[i], program_.graph.node(leave).results[0]);
  }
}

// A computation with a name: its body in place.
void Partitioner::visit_named(NodeId id, RegionId target) {
  const Node& node = source_.node(id);
  const std::vector<ValueId>& args = source_.region(node.regions[0]).args;
  for (size_t i = 0; i < args.size(); ++i) define(args[i], current(node.operands[i]));
  region_nodes(node.regions[0], target);
  const Node& end = source_.node(source_.terminator(node.regions[0]));
  for (size_t i = 0; i < node.results.size(); ++i)
    define(node.results[i], current(end.operands[i]));
}

void Partitioner::forget(size_t mark) {
  for (; made_.size() > mark; made_.pop_back()) {
    std::vector<ValueId>& versions = versions_[made_.back().index];
    if (versions.size() > 1) versions.pop_back();
  }
}

}  // namespace cleave
