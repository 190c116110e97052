#include "cleave/runtime/ops_collective.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/manual_scope.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_sharding.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/trace_scope.h"
#include "cleave/spmd/transfer.h"

namespace cleave {
namespace {

AxisList axes_of(const SpecEntry& axes, const MeshPtr& mesh) {
  PartitionSpec spec;
  spec.entries = {axes};
  // A dimension that is large enough for any axis.
  return to_sharding(spec, mesh, {int64_t{1} << 40}).dims[0].axes;
}

const MeshPtr& mesh_of(std::string_view op, const Tensor& x) {
  if (!x.mesh())
    throw_user("{}: tensor<{}> is on no mesh; say which with shard(mesh, ...)", op,
               to_string(x.shape()));
  return x.mesh();
}

void require_sharded(std::string_view op, const Tensor& x, int64_t dim, const AxisList& axes) {
  if (!without(axes, x.sharding().dims[static_cast<size_t>(dim)].axes).empty())
    throw_user("{}: dimension {} of {} is not sharded over {}", op, dim, to_string(x.sharding()),
               to_string(axes, *x.mesh()));
}

Type local_type(const Type& type, const ShardingSpec& spec) {
  if (!is_even(spec, type.shape))
    throw_user("manual_computation: {} does not divide evenly as {}", to_string(type),
               to_string(spec));
  return Type::tensor(type.dtype, local_shape(spec, type.shape));
}

// The shape of the whole whose parts have this one.
Shape whole_shape(Shape shape, const ShardingSpec& spec) {
  for (size_t d = 0; d < shape.size(); ++d) shape[d] *= total_size(spec.dims[d].axes);
  return shape;
}

ShardingSpec spec_for(const PartitionSpec& spec, const MeshPtr& mesh, size_t rank) {
  // Sizes are checked when they are known.
  return to_sharding(spec, mesh, Shape(rank, int64_t{1} << 40));
}

}  // namespace

Tensor all_reduce(const Tensor& x, const SpecEntry& axes, ReduceOp op) {
  if (const ManualScope* scope = manual_scope())
    return manual_all_reduce(x, axes_of(axes, scope->mesh), op);
  const AxisList list = axes_of(axes, mesh_of("all_reduce", x));
  ShardingSpec spec = x.sharding();
  spec.partial = without(spec.partial, list);
  return constrain(x, spec, "sdy.reshard");
}

Tensor all_gather(const Tensor& x, const SpecEntry& axes, int64_t dim) {
  if (const ManualScope* scope = manual_scope())
    return manual_all_gather(x, axes_of(axes, scope->mesh), dim);
  const int64_t d = checked_dim("all_gather", dim, x.rank());
  const AxisList list = axes_of(axes, mesh_of("all_gather", x));
  require_sharded("all_gather", x, d, list);
  ShardingSpec spec = x.sharding();
  AxisList& at = spec.dims[static_cast<size_t>(d)].axes;
  at = without(at, list);
  return constrain(x, spec, "sdy.reshard");
}

Tensor reduce_scatter(const Tensor& x, const SpecEntry& axes, int64_t dim) {
  if (const ManualScope* scope = manual_scope())
    return manual_reduce_scatter(x, axes_of(axes, scope->mesh), dim);
  const int64_t d = checked_dim("reduce_scatter", dim, x.rank());
  const AxisList list = axes_of(axes, mesh_of("reduce_scatter", x));
  ShardingSpec spec = x.sharding();
  if (!without(list, spec.partial).empty())
    throw_user("reduce_scatter: nothing is pending over {} in {}; use reshard to cut a dimension",
               to_string(without(list, spec.partial), *x.mesh()), to_string(spec));
  spec.partial = without(spec.partial, list);
  for (const AxisRef& ref : list) append_axis(spec.dims[static_cast<size_t>(d)].axes, ref);
  return constrain(x, spec, "sdy.reshard");
}

Tensor all_to_all(const Tensor& x, const SpecEntry& axes, int64_t from, int64_t to) {
  if (const ManualScope* scope = manual_scope())
    return manual_all_to_all(x, axes_of(axes, scope->mesh), from, to);
  const int64_t source = checked_dim("all_to_all", from, x.rank());
  const int64_t target = checked_dim("all_to_all", to, x.rank());
  const AxisList list = axes_of(axes, mesh_of("all_to_all", x));
  require_sharded("all_to_all", x, source, list);
  ShardingSpec spec = x.sharding();
  AxisList& at = spec.dims[static_cast<size_t>(source)].axes;
  at = without(at, list);
  for (const AxisRef& ref : list) append_axis(spec.dims[static_cast<size_t>(target)].axes, ref);
  return constrain(x, spec, "sdy.reshard");
}

Tensor ppermute(const Tensor& x, const std::string& axis,
                const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  if (const ManualScope* scope = manual_scope())
    return manual_permute(x, axes_of(axis, scope->mesh), pairs);
  const AxisList list = axes_of(axis, mesh_of("ppermute", x));
  PartitionSpec spec;
  spec.entries.resize(x.shape().size());
  bool found = false;
  for (size_t d = 0; d < spec.entries.size(); ++d)
    if (x.sharding().dims[d].axes == list) {
      spec.entries[d] = axis;
      found = true;
    }
  if (!found)
    throw_user("ppermute: no dimension of {} is sharded over \"{}\" alone", to_string(x.sharding()),
               axis);
  return manual_computation(
      [&](std::span<const Tensor> parts) { return std::vector{ppermute(parts[0], axis, pairs)}; },
      *x.mesh(), {x}, {spec}, {spec})[0];
}

Tensor axis_index(const SpecEntry& axes) {
  const ManualScope* scope = manual_scope();
  if (!scope)
    throw_user(
        "axis_index: only in shard_map is there one device; else use axis_index(mesh, axis)");
  return manual_axis_index(axes_of(axes, scope->mesh));
}

Tensor axis_index(const Mesh& mesh, const std::string& axis) {
  const int64_t size = mesh.axes[static_cast<size_t>(mesh.axis_index(axis))].size;
  return iota({size}, 0).shard(mesh, P(axis));
}

std::vector<Tensor> manual_computation(const ManualFunction& function, const Mesh& mesh,
                                       const std::vector<Tensor>& args,
                                       const std::vector<PartitionSpec>& in_specs,
                                       const std::vector<PartitionSpec>& out_specs) {
  if (!function) throw_user("manual_computation: the function is empty");
  if (in_specs.size() != args.size())
    throw_user("manual_computation: {} arguments and {} in specs", args.size(), in_specs.size());
  const MeshPtr shared = shared_mesh(mesh);
  SpecEntry all;
  for (const MeshAxis& axis : shared->axes) all.axes.push_back(axis.name);

  // The last argument tells each device its position.
  std::vector<Tensor> operands = args;
  std::vector<ShardingSpec> in;
  for (size_t i = 0; i < args.size(); ++i)
    in.push_back(to_sharding(in_specs[i], shared, args[i].shape()));
  operands.push_back(iota({shared->num_devices()}, 0));
  in.push_back(to_sharding(P(all), shared, {shared->num_devices()}));

  TraceScope trace;
  std::vector<Tensor> parts;
  std::vector<Type> body_types;
  for (size_t i = 0; i < operands.size(); ++i) {
    body_types.push_back(local_type(operands[i].type(), in[i]));
    parts.push_back(trace.placeholder(body_types.back()));
  }
  std::vector<Tensor> returned;
  {
    const ManualScope scope(shared, parts.back());
    returned = function(std::span(parts).first(args.size()));
  }
  const Traced traced = trace.finish(returned);
  if (out_specs.size() != returned.size())
    throw_user("manual_computation: {} results and {} out specs", returned.size(),
               out_specs.size());
  for (const Tensor& capture : traced.captures) {
    operands.push_back(capture);
    in.push_back(ShardingSpec::closed_replicated(shared, capture.shape().size()));
    body_types.push_back(capture.type());
  }

  std::vector<ShardingSpec> out;
  std::vector<Type> result_types;
  for (size_t i = 0; i < returned.size(); ++i) {
    out.push_back(spec_for(out_specs[i], shared, returned[i].shape().size()));
    result_types.push_back(
        Type::tensor(returned[i].dtype(), whole_shape(returned[i].shape(), out[i])));
  }
  Graph form;
  std::vector<Type> types;
  for (const Tensor& operand : operands) types.push_back(operand.type());
  GraphBuilder b = GraphBuilder::function(form, "main", std::move(types));
  AttrDict attrs;
  attrs.set("in_shardings", ShardingsAttr{in});
  attrs.set("out_shardings", ShardingsAttr{out});
  attrs.set("manual_axes", ManualAxesAttr{all.axes});
  const NodeId node =
      form.add_node("sdy.manual_computation", std::vector<ValueId>(form.region(b.region()).args),
                    std::move(result_types), std::move(attrs));
  const RegionId body = form.add_region(node);
  for (const Type& type : body_types) form.add_argument(body, type);
  const std::vector<ValueId> inner = form.region(body).args;
  std::vector<ValueId> results = splice(traced.graph, traced.function(), form, body, inner);
  form.append(body, form.add_node("sdy.return", std::move(results), {}));
  form.append(b.region(), node);
  b.finish(std::vector<ValueId>(form.node(node).results));
  return record_function(std::move(form), operands);
}

}  // namespace cleave
