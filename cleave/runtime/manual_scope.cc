#include "cleave/runtime/manual_scope.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/record.h"
#include "cleave/spmd/device_groups.h"

namespace cleave {
namespace {

thread_local const ManualScope* current = nullptr;

AttrDict group_attrs(const AxisList& axes, bool global_ids) {
  AttrDict attrs;
  attrs.set("replica_groups", table_attr(groups_along(*current->mesh, axes)));
  attrs.set("channel_handle", channel_attr(1));
  if (global_ids) attrs.set("use_global_device_ids", UnitAttr{});
  return attrs;
}

Tensor collective(const char* op, const Tensor& x, Shape shape, AttrDict attrs,
                  std::optional<ReduceOp> reduce = std::nullopt) {
  Graph graph;
  GraphBuilder b = GraphBuilder::function(graph, "main", {x.type()});
  const NodeId node =
      graph.add_node(op, {b.arg(0)}, {Type::tensor(x.dtype(), std::move(shape))}, std::move(attrs));
  if (reduce) {
    GraphBuilder body(graph, graph.add_region(node));
    for (int i = 0; i < 2; ++i) graph.add_argument(body.region(), Type::tensor(x.dtype(), {}));
    body.finish({body.emit(op_of(*reduce), {body.arg(0), body.arg(1)})});
  }
  graph.append(b.region(), node);
  b.finish(std::vector<ValueId>(graph.node(node).results));
  return record_function(std::move(graph), {&x, 1})[0];
}

}  // namespace

ManualScope::ManualScope(MeshPtr mesh, Tensor position)
    : mesh(std::move(mesh)), position(std::move(position)), outer(current) {
  current = this;
}
ManualScope::~ManualScope() { current = outer; }

const ManualScope* manual_scope() { return current; }

Tensor manual_all_reduce(const Tensor& x, const AxisList& axes, ReduceOp op) {
  return collective("stablehlo.all_reduce", x, x.shape(), group_attrs(axes, true), op);
}

Tensor manual_all_gather(const Tensor& x, const AxisList& axes, int64_t dim) {
  const int64_t d = checked_dim("all_gather", dim, x.rank());
  AttrDict attrs = group_attrs(axes, true);
  attrs.set("all_gather_dim", int_attr(d));
  Shape shape = x.shape();
  shape[static_cast<size_t>(d)] *= total_size(axes);
  return collective("stablehlo.all_gather", x, std::move(shape), std::move(attrs));
}

Tensor manual_reduce_scatter(const Tensor& x, const AxisList& axes, int64_t dim) {
  const int64_t d = checked_dim("reduce_scatter", dim, x.rank());
  Shape shape = x.shape();
  if (shape[static_cast<size_t>(d)] % total_size(axes) != 0)
    throw_user("reduce_scatter: dimension {} of tensor<{}> does not divide by {} devices", d,
               to_string(x.shape()), total_size(axes));
  shape[static_cast<size_t>(d)] /= total_size(axes);
  AttrDict attrs = group_attrs(axes, true);
  attrs.set("scatter_dimension", int_attr(d));
  return collective("stablehlo.reduce_scatter", x, std::move(shape), std::move(attrs),
                    ReduceOp::Sum);
}

Tensor manual_all_to_all(const Tensor& x, const AxisList& axes, int64_t from, int64_t to) {
  const int64_t concat = checked_dim("all_to_all", from, x.rank());
  const int64_t split = checked_dim("all_to_all", to, x.rank());
  Shape shape = x.shape();
  const int64_t count = total_size(axes);
  if (shape[static_cast<size_t>(split)] % count != 0)
    throw_user("all_to_all: dimension {} of tensor<{}> does not divide by {} devices", split,
               to_string(x.shape()), count);
  shape[static_cast<size_t>(split)] /= count;
  shape[static_cast<size_t>(concat)] *= count;
  AttrDict attrs = group_attrs(axes, false);
  attrs.set("split_dimension", int_attr(split));
  attrs.set("concat_dimension", int_attr(concat));
  attrs.set("split_count", int_attr(count));
  return collective("stablehlo.all_to_all", x, std::move(shape), std::move(attrs));
}

Tensor manual_permute(const Tensor& x, const AxisList& axes,
                      const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  for (size_t i = 0; i < pairs.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (pairs[i].first == pairs[j].first || pairs[i].second == pairs[j].second)
        throw_user(
            "ppermute: ({}, {}) and ({}, {}): each part goes to one device, and each device "
            "gets one part",
            pairs[j].first, pairs[j].second, pairs[i].first, pairs[i].second);
  std::vector<std::vector<int64_t>> moves;
  for (const auto& group : groups_along(*current->mesh, axes))
    for (const auto& [source, target] : pairs) {
      const auto size = static_cast<int64_t>(group.size());
      if (source < 0 || source >= size || target < 0 || target >= size)
        throw_user("ppermute: ({}, {}) among {} devices", source, target, size);
      moves.push_back({group[static_cast<size_t>(source)], group[static_cast<size_t>(target)]});
    }
  AttrDict attrs;
  attrs.set("source_target_pairs", table_attr(moves));
  attrs.set("channel_handle", channel_attr(1));
  return collective("stablehlo.collective_permute", x, x.shape(), std::move(attrs));
}

Tensor manual_axis_index(const AxisList& axes) {
  const Mesh& mesh = *current->mesh;
  const Tensor& position = current->position;
  Graph graph;
  GraphBuilder b = GraphBuilder::function(graph, "main", {position.type()});
  auto number = [&](int64_t n) {
    return b.constant(static_cast<double>(n), position.dtype(), position.shape());
  };
  ValueId index;
  std::vector<int64_t> along;
  for (const AxisRef& ref : axes) {
    int64_t below = 1;
    for (size_t a = static_cast<size_t>(ref.axis) + 1; a < mesh.axes.size(); ++a)
      below *= mesh.axes[a].size;
    below *= mesh.axes[static_cast<size_t>(ref.axis)].size / ref.next_pre();
    const ValueId here =
        b.emit("stablehlo.remainder",
               {b.emit("stablehlo.divide", {b.arg(0), number(below)}), number(ref.size)});
    index = index.valid() ? b.emit("stablehlo.add",
                                   {b.emit("stablehlo.multiply", {index, number(ref.size)}), here})
                          : here;
    along.push_back(ref.axis);
  }
  if (!index.valid()) index = number(0);
  AttrDict attrs;
  attrs.set(kAlongAxes, ints_attr(std::move(along)));
  b.finish({b.emit_as(Type::tensor(position.dtype(), {}), "stablehlo.reshape", {index},
                      std::move(attrs))});
  return record_function(std::move(graph), {&position, 1})[0];
}

}  // namespace cleave
