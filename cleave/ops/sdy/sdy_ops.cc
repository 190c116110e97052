#include <algorithm>

#include "cleave/core/shard_layout.h"
#include "cleave/kernels/combine.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/identity.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/literal_array.h"
#include "cleave/ops/rule_util.h"
#include "cleave/ops/sdy/family.h"
#include "cleave/ops/sdy/sdy_check.h"

// Shardy's ops. They speak of whole tensors: a constraint, a reshard or a collective says how its
// result lies on the devices, and the value is that of the operand. The partitioner turns them into
// the collectives that run.
namespace cleave {
namespace {

std::vector<Array> eval_identity(EvalContext&, const Node&, std::span<const Array> args) {
  return {args.begin(), args.end()};
}

std::vector<Type> infer_no_result(const Graph&, const Node&) { return {}; }
std::vector<Array> eval_no_result(EvalContext&, const Node&, std::span<const Array>) { return {}; }

void verify_sharding(const Graph& graph, const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  if (!attribute) return;
  const auto* sharding = attribute->as<ShardingAttr>();
  const Type& type = graph.operand_type(node, 0);
  if (!sharding || !type.has_static_shape()) return;
  try {
    verify(sharding->spec, type.shape);
  } catch (const UserError& error) {
    fail(node, "{} for {}: {}", to_string_with_mesh(sharding->spec), to_string(type), error.what());
  }
}
void verify_constraint(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  verify_sharding(graph, node, "sharding");
}
void verify_collective(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  verify_sharding(graph, node, "out_sharding");
  verify_sdy_collective(graph, node);
}

void verify_barrier(const Graph&, const Node& node) {
  require_operands(node, 1);
  require(
      !node.attrs.has("allowed_direction") || node.attrs.get_string("allowed_direction") != "BOTH",
      node, "allows both directions, and so is no barrier");
}

// ---- data_flow_edge ----

// An edge stands where data flows on: into or out of loops, branches, barriers and functions.
void verify_edge(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const NodeId producer = graph.value(node.operands[0]).producer;
  if (!producer.valid()) return;
  const Node& op = graph.node(producer);
  require(op.name() == "sdy.propagation_barrier" || op.def->has(kDataFlow), node,
          "stands on a result of {}, and not on an argument, or on a result of an op that data "
          "flows through, such as stablehlo.while",
          op.name());
}

// ---- constant ----

std::vector<Type> infer_constant(const Graph&, const Node& node) {
  return {node.attrs.get_literal("value").type};
}
std::vector<Array> eval_constant(EvalContext&, const Node& node, std::span<const Array>) {
  return {array_of(node.attrs.get_literal("value"))};
}

// ---- named_computation ----

std::vector<Type> infer_returned(const Graph& graph, const Node& node) {
  require(node.regions.size() == 1 && !graph.region(node.regions[0]).nodes.empty(), node,
          "has no body");
  std::vector<Type> types;
  for (ValueId value : graph.node(graph.terminator(node.regions[0])).operands)
    types.push_back(graph.type(value));
  return types;
}
void verify_named(const Graph& graph, const Node& node) {
  const std::vector<ValueId>& args = graph.region(node.regions[0]).args;
  require(args.size() == node.operands.size(), node, "the body takes {} arguments, the op {}",
          args.size(), node.operands.size());
  for (size_t i = 0; i < args.size(); ++i)
    require(compatible(graph.type(args[i]), graph.operand_type(node, i)), node,
            "the body takes {} as argument {}, {} is given", to_string(graph.type(args[i])), i,
            to_string(graph.operand_type(node, i)));
}
std::vector<Array> eval_body(EvalContext& context, const Node& node, std::span<const Array> args) {
  return context.run_region(node.regions[0], args);
}

// ---- manual_computation ----

const std::vector<ShardingSpec>& specs_of(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  const auto* shardings = attribute ? attribute->as<ShardingsAttr>() : nullptr;
  require(shardings, node, "the attribute '{}' is missing", name);
  return shardings->specs;
}

std::vector<std::string> manual_axes_of(const Node& node) {
  const Attribute* attribute = node.attrs.find("manual_axes");
  const auto* axes = attribute ? attribute->as<ManualAxesAttr>() : nullptr;
  require(axes, node, "the attribute 'manual_axes' is missing");
  return axes->axes;
}

// The spec without the free axes: what the body sees cut.
ShardingSpec manual_part(ShardingSpec spec, const std::vector<std::string>& manual) {
  auto is_free = [&](const AxisRef& ref) {
    return std::find(manual.begin(), manual.end(), spec.mesh->axes[ref.axis].name) == manual.end();
  };
  for (DimSpec& dim : spec.dims) std::erase_if(dim.axes, is_free);
  std::erase_if(spec.partial, is_free);
  spec.replicated.clear();
  return spec;
}

// What the body sees of a tensor; unknown sizes stay unknown.
Shape manual_shape(const ShardingSpec& spec, Shape shape) {
  const Shape global = shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (is_dynamic(shape[d])) shape[d] = total_size(spec.dims[d].axes);
  Shape local = local_shape(spec, shape);
  for (size_t d = 0; d < shape.size(); ++d)
    if (is_dynamic(global[d])) local[d] = kDynamicSize;
  return local;
}

void verify_manual(const Graph& graph, const Node& node) {
  require(node.regions.size() == 1, node, "has no body");
  const Region& body = graph.region(node.regions[0]);
  const auto& in = specs_of(node, "in_shardings");
  const auto& out = specs_of(node, "out_shardings");
  require(in.size() == node.operands.size() && body.args.size() == in.size(), node,
          "{} operands, {} in_shardings and {} arguments of the body", node.operands.size(),
          in.size(), body.args.size());
  require(out.size() == node.results.size(), node, "{} results and {} out_shardings",
          node.results.size(), out.size());
  const std::vector<std::string> manual = manual_axes_of(node);
  verify_manual_shardings(node, in, out, manual);
  for (size_t i = 0; i < in.size(); ++i) {
    const Type& type = graph.operand_type(node, i);
    if (!type.is_tensor() || type.unranked || !in[i].mesh) continue;
    require(in[i].dims.size() == type.rank(), node, "in_sharding {} for {} of another rank",
            to_string(in[i]), to_string(type));
    const Shape local = manual_shape(manual_part(in[i], manual), type.shape);
    require(graph.type(body.args[i]).dtype == type.dtype &&
                compatible(local, graph.type(body.args[i]).shape),
            node, "operand {}, {}, is tensor<{}> on a device, and the body takes {}", i,
            to_string(type), to_string(local), to_string(graph.type(body.args[i])));
  }
  const std::vector<ValueId>& returned = graph.node(graph.terminator(node.regions[0])).operands;
  require(returned.size() == out.size(), node,
          "the body returns {} values, and there are {} results", returned.size(), out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const Type& type = graph.result_type(node, i);
    if (!type.is_tensor() || type.unranked || !out[i].mesh) continue;
    require(out[i].dims.size() == type.rank(), node, "out_sharding {} for {} of another rank",
            to_string(out[i]), to_string(type));
    const Shape local = manual_shape(manual_part(out[i], manual), type.shape);
    require(graph.type(returned[i]).dtype == type.dtype &&
                compatible(local, graph.type(returned[i]).shape),
            node, "result {}, {}, is tensor<{}> on a device, and the body returns {}", i,
            to_string(type), to_string(local), to_string(graph.type(returned[i])));
  }
}

MeshPtr mesh_of(const Node& node) {
  for (const char* name : {"in_shardings", "out_shardings"})
    for (const ShardingSpec& spec : specs_of(node, name))
      if (spec.mesh) return spec.mesh;
  return nullptr;
}

// What each device returned, put together. Where the result is partial, the parts are combined.
Array assemble(const ShardingSpec& spec, const Type& type, const Mesh& mesh,
               const std::vector<Array>& by_device) {
  const int64_t count = mesh.num_devices();
  Array whole(type.dtype, type.shape);
  if (spec.partial.empty()) {
    for (int64_t p = 0; p < count; ++p) {
      const ShardSlice box = shard_slice(spec, type.shape, p);
      copy_elements(by_device[mesh.device_at(p)], whole.slice(box.offset, box.size));
    }
    return whole;
  }
  // Devices that differ only along partial axes hold parts of one box.
  std::vector<bool> done(static_cast<size_t>(count), false);
  auto partial_place = [&](int64_t position) {
    std::vector<int64_t> place = mesh.coordinates(position);
    for (const AxisRef& ref : spec.partial) {
      int64_t& c = place[ref.axis];
      const int64_t below = mesh.axes[ref.axis].size / (int64_t{ref.pre} * ref.size);
      c = c / (below * ref.size) * (below * ref.size) + c % below;
    }
    return place;
  };
  for (int64_t p = 0; p < count; ++p) {
    if (done[p]) continue;
    std::vector<Array> parts;
    std::vector<const std::byte*> bytes;
    for (int64_t q = p; q < count; ++q) {
      if (partial_place(q) != partial_place(p)) continue;
      done[q] = true;
      parts.push_back(by_device[mesh.device_at(q)].contiguous());
      bytes.push_back(parts.back().raw());
    }
    Array sum(type.dtype, parts[0].shape());
    combine_parts(spec.partial_op, type.dtype, bytes, sum.raw(), 0, sum.num_elements());
    const ShardSlice box = shard_slice(spec, type.shape, p);
    copy_elements(sum, whole.slice(box.offset, box.size));
  }
  return whole;
}

// Every device of the mesh runs the body on its part; axes that are free repeat the same work.
std::vector<Array> eval_manual(EvalContext& context, const Node& node,
                               std::span<const Array> args) {
  const MeshPtr mesh = mesh_of(node);
  const std::vector<std::string> manual = manual_axes_of(node);
  if (!mesh || manual.empty()) return context.run_region(node.regions[0], args);
  const int64_t count = mesh->num_devices();
  std::vector<std::vector<Array>> by_device(static_cast<size_t>(count));
  const auto& in = specs_of(node, "in_shardings");
  context.run_parallel({1, count}, {}, [&](EvalContext& device) {
    const int64_t position = mesh->position_of(device.device());
    std::vector<Array> local;
    for (size_t i = 0; i < args.size(); ++i) {
      const ShardSlice box = shard_slice(manual_part(in[i], manual), args[i].shape(), position);
      local.push_back(args[i].slice(box.offset, box.size));
    }
    by_device[static_cast<size_t>(device.device())] = device.run_region(node.regions[0], local);
  });
  const auto& out = specs_of(node, "out_shardings");
  std::vector<Array> results;
  for (size_t i = 0; i < node.results.size(); ++i) {
    std::vector<Array> parts;
    for (const auto& returned : by_device) parts.push_back(returned[i]);
    results.push_back(
        assemble(manual_part(out[i], manual), context.graph().result_type(node, i), *mesh, parts));
  }
  return results;
}

}  // namespace

bool is_identity_op(const Node& node) {
  return node.def->has(kSameValue) && node.operands.size() == 1 && node.results.size() == 1;
}

void register_sdy_ops(OpRegistry& registry) {
  registry.add({.name = "sdy.sharding_constraint",
                .traits = kSameValue,
                .infer = infer_identity,
                .verify = verify_constraint,
                .rule = pointwise_rule,
                .partial = view_partial,
                .cost = no_cost,
                .eval = eval_identity,
                .forwards = true,
                .propagation_class = always<PropagationClass::Elementwise>});
  registry.add({.name = "sdy.reshard",
                .traits = kPure | kSameValue | kKeepsConstants,
                .infer = infer_identity,
                .verify = verify_constraint,
                .cost = no_cost,
                .eval = eval_identity,
                .forwards = true,
                .propagation_class = always<PropagationClass::Elementwise>});
  registry.add({.name = "sdy.propagation_barrier",
                .traits = kPure | kSameValue | kKeepsConstants | kSteersPropagation,
                .infer = infer_identity,
                .verify = verify_barrier,
                .cost = no_cost,
                .eval = eval_identity,
                .forwards = true,
                .propagation_class = always<PropagationClass::Barrier>});
  registry.add({.name = "sdy.data_flow_edge",
                .traits = kSameValue | kSteersPropagation,
                .infer = infer_identity,
                .verify = verify_edge,
                .cost = no_cost,
                .eval = eval_identity,
                .forwards = true,
                .propagation_class = always<PropagationClass::PassThrough>});
  registry.add({.name = "sdy.func_data_flow_edge",
                .traits = kSameValue | kSteersPropagation,
                .infer = infer_identity,
                .cost = no_cost,
                .eval = eval_identity,
                .forwards = true,
                .propagation_class = always<PropagationClass::PassThrough>});
  registry.add({.name = "sdy.sharding_group", .infer = infer_no_result, .eval = eval_no_result});
  registry.add({.name = "sdy.constant",
                .traits = kPure | kConstantLike,
                .infer = infer_constant,
                .eval = eval_constant});
  registry.add({.name = "sdy.named_computation",
                .traits = kDataFlow | kIsolated,
                .flow = Flow::Named,
                .infer = infer_returned,
                .verify = verify_named,
                .eval = eval_body});
  registry.add({.name = "sdy.manual_computation",
                .traits = kDataFlow | kIsolated,
                .flow = Flow::Manual,
                .infer = infer_declared,
                .verify = verify_manual,
                .eval = eval_manual});
  for (const char* name : {"sdy.all_gather", "sdy.all_slice", "sdy.all_to_all",
                           "sdy.collective_permute", "sdy.all_reduce", "sdy.reduce_scatter",
                           "sdy.sharded_to_unreduced", "sdy.replicated_to_unreduced"})
    registry.add({.name = name,
                  .traits = kCollective | kSameValue,
                  .infer = infer_identity,
                  .verify = verify_collective,
                  .eval = eval_identity,
                  .forwards = true});
}

}  // namespace cleave
