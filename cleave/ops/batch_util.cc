#include "cleave/ops/batch_util.h"

#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/ops/infer_util.h"

namespace cleave {

namespace {

// "!quant.uniform<i8:f32:1, {0.5, 2.0}>" has scales along dimension 1, which moves along.
void shift_quantized_axis(std::string& text, int64_t dim) {
  const size_t scales = text.find(", {");
  if (!text.starts_with("!quant.") || scales == std::string::npos) return;
  const size_t colon = text.rfind(':', scales);
  const std::string digits = text.substr(colon + 1, scales - colon - 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return;
  const int64_t axis = std::stoll(digits);
  if (axis >= dim) text.replace(colon + 1, digits.size(), std::to_string(axis + 1));
}

}  // namespace

Type with_dim(Type type, int64_t dim, int64_t size) {
  if (type.kind == Type::Kind::Tuple)
    for (Type& element : type.elements) element = with_dim(std::move(element), dim, size);
  if (!type.is_tensor()) return type;
  type.shape.insert(type.shape.begin() + dim, size);
  type.encoding.clear();
  if (type.dtype == DType::Other) shift_quantized_axis(type.text, dim);
  return type;
}

std::vector<int64_t> shifted(std::vector<int64_t> dims) {
  for (int64_t& d : dims) ++d;
  return dims;
}

std::vector<int64_t> prepended(int64_t first, std::vector<int64_t> rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

Type operand_type(const BatchContext& c, size_t i) { return c.b.graph().operand_type(c.node, i); }
Type result_type(const BatchContext& c, size_t i) { return c.b.graph().result_type(c.node, i); }
std::vector<Type> batched_result_types(const BatchContext& c, int64_t dim) {
  std::vector<Type> types;
  for (size_t i = 0; i < c.node.results.size(); ++i)
    types.push_back(with_dim(result_type(c, i), dim, c.size));
  return types;
}

ValueId move_dim(GraphBuilder& b, ValueId value, int64_t from, int64_t to) {
  if (from == to) return value;
  std::vector<int64_t> order;
  for (int64_t d = 0; d < static_cast<int64_t>(b.shape(value).size()); ++d)
    if (d != from) order.push_back(d);
  order.insert(order.begin() + to, from);
  return b.transpose(value, std::move(order));
}

ValueId batched_at(const BatchContext& c, const Batched& value, int64_t dim) {
  GraphBuilder& b = c.b;
  if (b.type(value.value).kind == Type::Kind::Tuple) {
    if (value.batched()) return value.value;
    std::vector<ValueId> elements;
    for (size_t i = 0; i < b.type(value.value).elements.size(); ++i) {
      AttrDict attrs;
      attrs.set("index", int_attr(static_cast<int64_t>(i), DType::I32));
      const ValueId element =
          b.emit("stablehlo.get_tuple_element", {value.value}, std::move(attrs));
      elements.push_back(batched_at(c, {element}, 0));
    }
    return b.emit("stablehlo.tuple", std::move(elements));
  }
  const Type& type = b.type(value.value);
  require(type.is_tensor() && !type.unranked, c.node, "{} cannot be batched", to_string(type));
  if (value.batched()) return move_dim(b, value.value, value.dim, dim);
  require(type.has_static_shape(), c.node,
          "{} is the same for all examples and of a size known at run time only; batch it as well",
          to_string(type));
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(type.rank()); ++d) dims.push_back(d + (d >= dim));
  return b.broadcast(value.value, with_dim(type, dim, c.size).shape, std::move(dims));
}

std::vector<ValueId> all_at_front(const BatchContext& c) {
  std::vector<ValueId> values;
  for (const Batched& operand : c.operands) values.push_back(at_front(c, operand));
  return values;
}

ValueId merge_dims(GraphBuilder& b, ValueId value, int64_t dim) {
  Shape shape = b.shape(value);
  shape[dim] *= shape[dim + 1];
  shape.erase(shape.begin() + dim + 1);
  return b.reshape(value, std::move(shape));
}

ValueId split_dim(GraphBuilder& b, ValueId value, int64_t dim, int64_t size) {
  Shape shape = b.shape(value);
  shape[dim] /= size;
  shape.insert(shape.begin() + dim, size);
  return b.reshape(value, std::move(shape));
}

bool any_batched(std::span<const Batched> values) {
  return std::ranges::any_of(values, [](const Batched& value) { return value.batched(); });
}

std::vector<int64_t> counting(int64_t from, size_t count) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

std::vector<Batched> all_batched(const std::vector<ValueId>& values, int64_t dim) {
  std::vector<Batched> result;
  for (ValueId value : values) result.push_back({value, dim});
  return result;
}

std::vector<ValueId> emit_self(const BatchContext& c, std::vector<ValueId> operands,
                               std::vector<Type> types, AttrDict attrs) {
  attrs.erase("sdy.sharding");
  attrs.erase("mhlo.sharding");
  Graph& graph = c.b.graph();
  const NodeId node =
      graph.add_node(c.node.name(), std::move(operands), std::move(types), std::move(attrs));
  c.transform.copy_regions(c.node, node);
  graph.append(c.b.region(), node);
  return graph.node(node).results;
}

std::vector<Batched> emit_self(const BatchContext& c, std::vector<ValueId> operands, AttrDict attrs,
                               int64_t dim) {
  return all_batched(
      emit_self(c, std::move(operands), batched_result_types(c, dim), std::move(attrs)), dim);
}

namespace {

// That of the first operand of the highest rank: a scalar says nothing of where others want it.
int64_t first_batch_dim(const BatchContext& c) {
  int64_t dim = 0;
  size_t rank = 0;
  for (const Batched& operand : c.operands) {
    if (!operand.batched() || c.b.shape(operand.value).size() <= rank) continue;
    dim = operand.dim;
    rank = c.b.shape(operand.value).size();
  }
  return dim;
}

}  // namespace

std::vector<Batched> batch_with_scalars(const BatchContext& c,
                                        std::initializer_list<size_t> scalars) {
  const size_t rank = result_type(c).rank();
  const int64_t dim = first_batch_dim(c);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const Batched& operand = c.operands[i];
    const bool scalar = operand_type(c, i).rank() == 0;
    if (scalar && !operand.batched() && std::ranges::find(scalars, i) != scalars.end()) {
      operands.push_back(operand.value);
    } else if (scalar && rank > 0) {
      std::vector<int64_t> dims;
      if (operand.batched()) dims.push_back(dim);
      operands.push_back(c.b.broadcast(operand.value, with_dim(result_type(c), dim, c.size).shape,
                                       std::move(dims)));
    } else {
      operands.push_back(batched_at(c, operand, dim));
    }
  }
  return emit_self(c, std::move(operands), c.node.attrs, dim);
}

std::vector<Batched> batch_elementwise(const BatchContext& c) { return batch_with_scalars(c, {}); }

std::vector<Batched> batch_in_front(const BatchContext& c) {
  return emit_self(c, all_at_front(c), c.node.attrs);
}

std::vector<Batched> batch_identity(const BatchContext& c) {
  std::vector<ValueId> operands;
  std::vector<Type> types;
  for (const Batched& operand : c.operands) {
    operands.push_back(operand.value);
    types.push_back(c.b.type(operand.value));
  }
  const std::vector<ValueId> results =
      emit_self(c, std::move(operands), std::move(types), c.node.attrs);
  std::vector<Batched> batched;
  for (size_t i = 0; i < results.size(); ++i) batched.push_back({results[i], c.operands[i].dim});
  return batched;
}

std::vector<ValueId> emit_while(
    GraphBuilder& b, std::vector<ValueId> inits,
    const std::function<ValueId(GraphBuilder&, std::span<const ValueId>)>& condition,
    const LoopFn& body) {
  Graph& graph = b.graph();
  std::vector<Type> types;
  for (ValueId value : inits) types.push_back(graph.type(value));
  const NodeId node = graph.add_node("stablehlo.while", std::move(inits), types);
  auto region = [&] {
    const RegionId id = graph.add_region(node);
    for (const Type& type : types) graph.add_argument(id, type);
    return GraphBuilder(graph, id);
  };
  auto args = [&](const GraphBuilder& inside) {
    return std::vector<ValueId>(graph.region(inside.region()).args);
  };
  GraphBuilder test = region();
  test.finish({condition(test, args(test))});
  GraphBuilder step = region();
  step.finish(body(step, args(step)));
  graph.append(b.region(), node);
  return graph.node(node).results;
}

std::vector<Batched> batch_by_loop(const BatchContext& c) {
  std::vector<ValueId> operands;
  for (const Batched& operand : c.operands)
    operands.push_back(operand.batched() ? at_front(c, operand) : operand.value);
  std::vector<ValueId> inits{c.b.constant(0, DType::I32)};
  for (size_t i = 0; i < c.node.results.size(); ++i) {
    const Type& type = result_type(c, i);
    require(type.is_tensor() && type.has_static_shape(), c.node,
            "runs example by example, and its result {} has no static shape", to_string(type));
    inits.push_back(c.b.constant(0, type.dtype, with_dim(type, 0, c.size).shape));
  }
  auto starts = [](GraphBuilder& b, ValueId at, size_t rank) {
    std::vector<ValueId> indices(rank, b.constant(0, DType::I32));
    if (rank > 0) indices[0] = at;
    return indices;
  };
  auto condition = [&](GraphBuilder& b, std::span<const ValueId> values) {
    return b.compare("LT", values[0], b.constant(static_cast<double>(c.size), DType::I32));
  };
  auto body = [&](GraphBuilder& b, std::span<const ValueId> values) {
    std::vector<ValueId> example;
    for (size_t i = 0; i < operands.size(); ++i) {
      example.push_back(operands[i]);
      if (!c.operands[i].batched()) continue;
      const Shape whole = b.shape(operands[i]);
      Shape sizes = whole;
      sizes[0] = 1;
      AttrDict attrs;
      attrs.set("slice_sizes", ints_attr(sizes));
      std::vector<ValueId> slice{operands[i]};
      for (ValueId start : starts(b, values[0], whole.size())) slice.push_back(start);
      const ValueId part = b.emit("stablehlo.dynamic_slice", std::move(slice), std::move(attrs));
      example.back() = b.reshape(part, Shape(whole.begin() + 1, whole.end()));
    }
    std::vector<Type> types;
    for (size_t i = 0; i < c.node.results.size(); ++i) types.push_back(result_type(c, i));
    const BatchContext inside{b, c.node, c.operands, c.size, c.transform};
    const std::vector<ValueId> results =
        emit_self(inside, std::move(example), std::move(types), c.node.attrs);
    std::vector<ValueId> next{b.emit("stablehlo.add", {values[0], b.constant(1, DType::I32)})};
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueId row = b.reshape(results[i], prepended(1, b.shape(results[i])));
      std::vector<ValueId> update{values[i + 1], row};
      for (ValueId start : starts(b, values[0], b.shape(row).size())) update.push_back(start);
      next.push_back(b.emit("stablehlo.dynamic_update_slice", std::move(update)));
    }
    return next;
  };
  std::vector<ValueId> results = emit_while(c.b, std::move(inits), condition, body);
  results.erase(results.begin());
  return all_batched(results);
}

ShardingSpec with_batch_dim(ShardingSpec spec, int64_t dim, std::string_view spmd_axis,
                            std::string_view what) {
  DimSpec batch{.axes = {}, .open = spmd_axis.empty(), .priority = {}};
  if (!spmd_axis.empty() && spec.mesh) {
    const auto& axes = spec.mesh->axes;
    if (std::none_of(axes.begin(), axes.end(),
                     [&](const auto& axis) { return axis.name == spmd_axis; }))
      throw_user("vmap: {} is laid out over {}, which has no axis \"{}\" for the examples", what,
                 to_string_with_mesh(spec), spmd_axis);
    const AxisRef axis = whole_axis(*spec.mesh, spmd_axis);
    bool used = overlaps_any(axis, spec.replicated) || overlaps_any(axis, spec.partial);
    for (const DimSpec& other : spec.dims) used |= overlaps_any(axis, other.axes);
    if (used)
      throw_user(
          "vmap: {} has the sharding {}, which uses the axis \"{}\" that the examples are to be "
          "sharded over; give vmap another axis, or take it out of the sharding",
          what, to_string_with_mesh(spec), spmd_axis);
    batch.axes = {axis};
  }
  spec.dims.insert(spec.dims.begin() + dim, std::move(batch));
  return spec;
}

}  // namespace cleave
