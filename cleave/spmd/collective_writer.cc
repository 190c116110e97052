#include "cleave/spmd/collective_writer.h"

#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/graph/local_op.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/reshard/reshard.h"
#include "cleave/spmd/device_groups.h"

namespace cleave {
namespace {

AxisList joined(const auto& moves) {
  AxisList axes;
  for (const auto& move : moves) axes.insert(axes.end(), move.axes.begin(), move.axes.end());
  return axes;
}

int64_t count_of(const auto& moves) { return total_size(joined(moves)); }

// The axes of `longer` after those of `shorter`, which begin it.
AxisList rest_of(const AxisList& longer, const AxisList& shorter) {
  internal_check(is_prefix_of(shorter, longer), "a step of a reshard removes inner axes");
  return without(longer, shorter);
}

}  // namespace

Shape padded_shape(const Layout& layout, const Shape& whole, int64_t devices) {
  if (!layout.boxes) {
    if (!layout.spec.mesh || layout.spec.mesh->axes.empty()) return whole;
    return local_shape(layout.spec, whole);
  }
  Shape shape(whole.size());
  for (int64_t device = 0; device < devices; ++device) {
    const ShardSlice box = layout.box(whole, device);
    for (size_t d = 0; d < shape.size(); ++d) shape[d] = std::max(shape[d], box.size[d]);
  }
  return shape;
}

std::vector<ByDevice> CollectiveWriter::by_device(const Layout& layout, const Shape& shape,
                                                  Shape ShardSlice::*part) const {
  std::vector<ByDevice> result(shape.size());
  for (int64_t device = 0; device < own_.devices(); ++device) {
    const ShardSlice box = layout.box(shape, device);
    for (size_t d = 0; d < shape.size(); ++d) result[d].push_back((box.*part)[d]);
  }
  return result;
}

AttrDict CollectiveWriter::groups(const AxisList& axes, bool global_ids) {
  AttrDict attrs;
  attrs.set("replica_groups", table_attr(groups_along(*mesh_, axes)));
  attrs.set("channel_handle", channel_attr(channel_++));
  if (global_ids) attrs.set("use_global_device_ids", UnitAttr{});
  return attrs;
}

ValueId CollectiveWriter::collective(std::string_view op, ValueId value, Shape shape,
                                     AttrDict attrs, std::optional<ReduceOp> reduce) {
  Graph& graph = own_.graph();
  Type type = graph.type(value);
  const Type scalar = Type::tensor(type.dtype, {});
  type.shape = std::move(shape);
  const NodeId node = graph.add_node(op, {value}, {std::move(type)}, std::move(attrs));
  if (reduce) {
    GraphBuilder body(graph, graph.add_region(node));
    for (int i = 0; i < 2; ++i) graph.add_argument(body.region(), scalar);
    body.finish({body.emit(op_of(*reduce), {body.arg(0), body.arg(1)})});
  }
  graph.append(own_.region(), node);
  return graph.node(node).results[0];
}

ValueId CollectiveWriter::split_off(const std::vector<Move>& moves, bool at_target, ValueId value) {
  GraphBuilder b = own_.builder();
  const Shape shape = b.shape(value);
  Shape split;
  std::vector<int64_t> order(moves.size()), rest;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t left = shape[d];
    for (size_t m = 0; m < moves.size(); ++m) {
      if ((at_target ? moves[m].target : moves[m].dim) != d) continue;
      order[m] = static_cast<int64_t>(split.size());
      split.push_back(total_size(moves[m].axes));
      left /= split.back();
    }
    rest.push_back(static_cast<int64_t>(split.size()));
    split.push_back(left);
  }
  Shape packed = {count_of(moves)};
  for (int64_t d : rest) packed.push_back(split[static_cast<size_t>(d)]);
  order.insert(order.end(), rest.begin(), rest.end());
  return b.reshape(b.transpose(b.reshape(value, split), order), packed);
}

ValueId CollectiveWriter::join_in(const std::vector<Move>& moves, ValueId value) {
  GraphBuilder b = own_.builder();
  const Shape packed = b.shape(value);
  Shape split, shape(packed.begin() + 1, packed.end());
  for (const Move& move : moves) split.push_back(total_size(move.axes));
  split.insert(split.end(), shape.begin(), shape.end());
  std::vector<int64_t> order;
  for (size_t d = 0; d < shape.size(); ++d) {
    for (size_t m = 0; m < moves.size(); ++m) {
      if (moves[m].dim != d) continue;
      order.push_back(static_cast<int64_t>(m));
      shape[d] *= split[m];
    }
    order.push_back(static_cast<int64_t>(moves.size() + d));
  }
  return b.reshape(b.transpose(b.reshape(value, split), order), shape);
}

ValueId CollectiveWriter::all_gather(const std::vector<Move>& moves, ValueId value) {
  GraphBuilder b = own_.builder();
  Shape shape = b.shape(value);
  AttrDict attrs = groups(joined(moves), true);
  const int64_t count = count_of(moves);
  if (moves.size() == 1) {
    attrs.set("all_gather_dim", int_attr(static_cast<int64_t>(moves[0].dim)));
    shape[moves[0].dim] *= count;
    return collective("stablehlo.all_gather", value, shape, std::move(attrs));
  }
  shape.insert(shape.begin(), 1);
  value = b.reshape(value, shape);
  shape[0] = count;
  attrs.set("all_gather_dim", int_attr(0));
  return join_in(moves, collective("stablehlo.all_gather", value, shape, std::move(attrs)));
}

ValueId CollectiveWriter::average(ValueId sum, int64_t count) {
  GraphBuilder b = own_.builder();
  return b.binary("stablehlo.divide", sum, b.constant_like(static_cast<double>(count), sum));
}

ValueId CollectiveWriter::reduce_scatter(const std::vector<Move>& moves, ReduceOp op,
                                         ValueId value) {
  GraphBuilder b = own_.builder();
  AttrDict attrs = groups(joined(moves), true);
  const int64_t count = count_of(moves);
  if (moves.size() == 1) {
    Shape shape = b.shape(value);
    attrs.set("scatter_dimension", int_attr(static_cast<int64_t>(moves[0].dim)));
    shape[moves[0].dim] /= count;
    value = collective("stablehlo.reduce_scatter", value, shape, std::move(attrs), op);
  } else {
    value = split_off(moves, false, value);
    Shape shape = b.shape(value);
    shape[0] = 1;
    attrs.set("scatter_dimension", int_attr(0));
    value = collective("stablehlo.reduce_scatter", value, shape, std::move(attrs), op);
    value = b.reshape(value, Shape(shape.begin() + 1, shape.end()));
  }
  return op == ReduceOp::Avg ? average(value, count) : value;
}

ValueId CollectiveWriter::all_to_all(const std::vector<Move>& moves, ValueId value) {
  GraphBuilder b = own_.builder();
  AttrDict attrs = groups(joined(moves), false);
  const int64_t count = count_of(moves);
  attrs.set("split_count", int_attr(count));
  if (moves.size() == 1) {
    Shape shape = b.shape(value);
    shape[moves[0].dim] *= count;
    shape[moves[0].target] /= count;
    attrs.set("split_dimension", int_attr(static_cast<int64_t>(moves[0].target)));
    attrs.set("concat_dimension", int_attr(static_cast<int64_t>(moves[0].dim)));
    return collective("stablehlo.all_to_all", value, shape, std::move(attrs));
  }
  value = split_off(moves, true, value);
  attrs.set("split_dimension", int_attr(0));
  attrs.set("concat_dimension", int_attr(0));
  return join_in(moves,
                 collective("stablehlo.all_to_all", value, b.shape(value), std::move(attrs)));
}

ValueId CollectiveWriter::all_reduce(const AxisList& axes, ReduceOp op, ValueId value) {
  value = collective("stablehlo.all_reduce", value, own_.graph().type(value).shape,
                     groups(axes, true), op);
  return op == ReduceOp::Avg ? average(value, total_size(axes)) : value;
}

ValueId CollectiveWriter::permute(const std::vector<int64_t>& sources, ValueId value) {
  std::vector<std::vector<int64_t>> pairs;
  for (size_t device = 0; device < sources.size(); ++device)
    pairs.push_back({sources[device], static_cast<int64_t>(device)});
  AttrDict attrs;
  attrs.set("source_target_pairs", table_attr(pairs));
  attrs.set("channel_handle", channel_attr(channel_++));
  return collective("stablehlo.collective_permute", value, own_.graph().type(value).shape,
                    std::move(attrs));
}

ValueId CollectiveWriter::slice(const Layout& before, const Layout& after, const Type& whole,
                                ValueId value) {
  std::vector<ByDevice> starts = offsets(after, whole.shape);
  const std::vector<ByDevice> held = offsets(before, whole.shape);
  const std::vector<ByDevice> wanted = sizes(after, whole.shape);
  for (size_t d = 0; d < starts.size(); ++d)
    for (size_t device = 0; device < starts[d].size(); ++device)
      starts[d][device] =
          wanted[d][device] == 0 ? 0 : std::max<int64_t>(0, starts[d][device] - held[d][device]);
  return own_.window(value, starts, padded_shape(after, whole.shape, own_.devices()));
}

// What is newly partial: along axes that held copies, one device keeps the value; along axes that
// cut it, every device puts its shard between identities.
ValueId CollectiveWriter::to_partial(const Layout& before, const Layout& after, const Type& whole,
                                     ValueId value) {
  const ReduceOp op = after.spec.partial_op;
  GraphBuilder b = own_.builder();
  const Shape target = padded_shape(after, whole.shape, own_.devices());
  Type type = b.type(value);
  if (type.shape != target || offsets(before, whole.shape) != offsets(after, whole.shape)) {
    const Literal fill = identity_literal(op, type);
    value = own_.within(value, sizes(before, whole.shape), fill);
    std::vector<ByDevice> starts = offsets(before, whole.shape);
    const std::vector<ByDevice> base = offsets(after, whole.shape);
    Shape room = target;
    for (size_t d = 0; d < starts.size(); ++d)
      for (size_t device = 0; device < starts[d].size(); ++device) {
        int64_t& start = starts[d][device];
        start = std::max<int64_t>(0, start - base[d][device]);
        room[d] = std::max(room[d], start + type.shape[d]);
      }
    type.shape = room;
    const ValueId into = own_.constant(identity_literal(op, type));
    return own_.fit(own_.put(into, value, starts), target);
  }
  if (op != ReduceOp::Sum && op != ReduceOp::Prod) return value;
  const AxisList created = without(after.spec.partial, before.spec.partial);
  std::vector<bool> keeps;
  for (int64_t device = 0; device < own_.devices(); ++device)
    keeps.push_back(coordinate(created, *mesh_, mesh_->position_of(device)) == 0);
  return b.emit("stablehlo.select",
                {own_.flag(keeps), value, own_.constant(identity_literal(op, type))});
}

// Any change of place without a sum, piece by piece. In each round a device sends one piece and
// gets one, as large as the largest of the round; what is beyond its own size is not kept.
ValueId CollectiveWriter::exchange(const Layout& before, const Layout& after, const Type& whole,
                                   ValueId value) {
  struct Message {
    int64_t from, to;
    Shape source, target, size;
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<Message>> rounds;  // by distance, and repeats
  const int64_t n = own_.devices();
  TransferPlanner planner(before, after, whole.shape, whole.dtype);
  for (int64_t device = 0; device < n; ++device) {
    const Transfer transfer = planner.plan(device);
    internal_check(transfer.parts == 1, "a sum in an exchange of pieces");
    std::map<int64_t, int64_t> repeats;
    for (const Transfer::Piece& piece : transfer.receives) {
      const int64_t distance = (device - piece.device + n) % n;
      rounds[{distance, repeats[piece.device]++}].push_back(
          {piece.device, device, piece.source, piece.start, piece.size});
    }
  }
  const size_t rank = whole.rank();
  const Shape target = padded_shape(after, whole.shape, n);
  Shape room = target;
  for (const auto& [key, messages] : rounds)
    for (const Message& m : messages)
      for (size_t d = 0; d < rank; ++d)
        for (const Message& other : messages)
          room[d] = std::max(room[d], m.target[d] + other.size[d]);
  Type type = own_.graph().type(value);
  type.shape = room;
  ValueId result = own_.zeros(type);
  for (const auto& [key, messages] : rounds) {
    Shape size(rank);
    std::vector<ByDevice> source(rank, ByDevice(static_cast<size_t>(n))), place = source,
                                                                          count = source;
    std::vector<std::vector<int64_t>> pairs;
    for (const Message& m : messages) {
      pairs.push_back({m.from, m.to});
      for (size_t d = 0; d < rank; ++d) {
        size[d] = std::max(size[d], m.size[d]);
        source[d][static_cast<size_t>(m.from)] = m.source[d];
        place[d][static_cast<size_t>(m.to)] = m.target[d];
        count[d][static_cast<size_t>(m.to)] = m.size[d];
      }
    }
    ValueId piece = own_.window(value, source, size);
    if (key.first != 0) {
      AttrDict attrs;
      attrs.set("source_target_pairs", table_attr(pairs));
      attrs.set("channel_handle", channel_attr(channel_++));
      piece = collective("stablehlo.collective_permute", piece, size, std::move(attrs));
    }
    piece = own_.within(piece, count, own_.window(result, place, size));
    result = own_.put(result, piece, place);
  }
  return own_.fit(result, target);
}

ValueId CollectiveWriter::write(std::string_view step, const Layout& before, const Layout& after,
                                const Type& whole, ValueId value) {
  mesh_ = before.spec.mesh && !before.spec.mesh->axes.empty() ? before.spec.mesh.get()
                                                              : after.spec.mesh.get();
  const Shape target = padded_shape(after, whole.shape, own_.devices());
  if (num_elements(whole.shape) == 0) {  // collectives take no empty arrays
    Type type = whole;
    type.shape = target;
    return own_.zeros(type);
  }
  const auto kind = step_kind_from_name(step);
  if (!kind) return exchange(before, after, whole, value);  // halo
  std::vector<Move> moves;
  Shape held = own_.graph().type(value).shape;
  auto gathers = [&](bool longer_before) {
    for (size_t d = 0; d < whole.rank(); ++d) {
      const AxisList& old = before.spec.dims[d].axes;
      const AxisList& now = after.spec.dims[d].axes;
      if (old != now) moves.push_back({d, longer_before ? rest_of(old, now) : rest_of(now, old)});
    }
  };
  switch (*kind) {
    case StepKind::AllGather:
      gathers(true);
      return own_.fit(all_gather(moves, value), target);
    case StepKind::ReduceScatter:
      gathers(false);
      for (const Move& move : moves) held[move.dim] = target[move.dim] * total_size(move.axes);
      return reduce_scatter(moves, before.spec.partial_op, own_.fit(value, held));
    case StepKind::AllToAll: {
      for (size_t d = 0; d < whole.rank(); ++d) {
        const AxisList &old = before.spec.dims[d].axes, &now = after.spec.dims[d].axes;
        if (total_size(now) >= total_size(old)) continue;
        const AxisList axes = rest_of(old, now);
        for (size_t t = 0; t < whole.rank(); ++t) {
          const AxisList &was = before.spec.dims[t].axes, &is = after.spec.dims[t].axes;
          if (total_size(is) > total_size(was) && rest_of(is, was) == axes)
            moves.push_back({d, axes, t});
        }
      }
      for (const Move& move : moves)
        held[move.target] = target[move.target] * total_size(move.axes);
      return own_.fit(all_to_all(moves, own_.fit(value, held)), target);
    }
    case StepKind::AllReduce:
      return all_reduce(without(before.spec.partial, after.spec.partial), before.spec.partial_op,
                        value);
    case StepKind::CollectivePermute:
      return permute(permute_sources(before.spec, after.spec), value);
    case StepKind::AllSlice:
      return slice(before, after, whole, value);
    case StepKind::ReplicatedToPartial:
    case StepKind::ShardedToPartial:
      return to_partial(before, after, whole, value);
    case StepKind::Relabel:
      return own_.fit(value, target);
    case StepKind::Scatter:
    case StepKind::Gather:
      break;
  }
  return exchange(before, after, whole, value);
}

}  // namespace cleave
