#include "cleave/runtime/ops_stablehlo.h"

#include "cleave/core/error.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/promotion.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/trace_scope.h"

namespace cleave::stablehlo {
namespace {

Tensors join(std::span<const Tensor> a, std::span<const Tensor> b) {
  Tensors all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// A body on two (or one) scalars for each dtype.
Traced scalar_body(std::string_view name, const std::vector<DType>& args, const Body& body) {
  TraceScope scope;
  Tensors scalars;
  for (DType dtype : args) scalars.push_back(scope.placeholder(Type::tensor(dtype, {})));
  Traced traced = scope.finish(body(scalars));
  if (!traced.captures.empty())
    throw_user(
        "{}: its body uses {}, a tensor from outside; only numbers and arguments may stand "
        "there",
        name, to_string(traced.captures[0].type()));
  return traced;
}

// Types are inferred with the bodies in place, where none are given.
Tensors with_bodies(std::string_view name, std::span<const Tensor> operands, AttrDict attrs,
                    std::vector<Type> types, std::span<const Traced> bodies) {
  Graph graph;
  std::vector<Type> args;
  for (const Tensor& operand : operands) args.push_back(operand.type());
  GraphBuilder b = GraphBuilder::function(graph, "main", std::move(args));
  const std::vector<ValueId> values = graph.region(b.region()).args;
  auto add = [&](std::vector<Type> results) {
    const NodeId node = graph.add_node(name, values, std::move(results), attrs);
    for (const Traced& body : bodies) {
      const RegionId region = graph.add_region(node);
      for (const Type& type : body.function().arg_types) graph.add_argument(region, type);
      const std::vector<ValueId> inner = graph.region(region).args;
      std::vector<ValueId> ends = splice(body.graph, body.function(), graph, region, inner);
      graph.append(region, graph.add_node("stablehlo.return", std::move(ends), {}));
    }
    return node;
  };
  const OpDef* def = find_op(name);
  if (!def) throw_user("no op is called '{}'; cleave ops lists them", name);
  if (types.empty() && def->infer) {
    const NodeId probe = add({});
    types = def->infer(graph, graph.node(probe));
  }
  if (types.empty())
    throw_user("{}: gives no tensor; if it should, give the types of its results", name);
  for (const Type& type : types)
    if (type.kind != Type::Kind::Tensor)
      throw_user("{}: gives {}, which is no tensor; replay runs modules that use it", name,
                 to_string(type));
  const NodeId node = add(std::move(types));
  if (def->infer) def->infer(graph, graph.node(node));
  if (def->verify) def->verify(graph, graph.node(node));
  graph.append(b.region(), node);
  b.finish(std::vector<ValueId>(graph.node(node).results));
  return record_function(std::move(graph), operands);
}

std::vector<DType> twice(std::span<const Tensor> tensors) {
  std::vector<DType> dtypes;
  for (int i = 0; i < 2; ++i)
    for (const Tensor& tensor : tensors) dtypes.push_back(tensor.dtype());
  return dtypes;
}

AttrDict norm_attrs(double epsilon, int64_t feature) {
  AttrDict attrs;
  attrs.set("epsilon", FloatAttr{epsilon, Type::scalar(DType::F32)});
  attrs.set("feature_index", int_attr(feature));
  return attrs;
}

Tensor typed(std::string_view name, std::initializer_list<Tensor> operands, Type type,
             AttrDict attrs = {}) {
  return op(name, std::span<const Tensor>(operands.begin(), operands.size()), std::move(attrs),
            {std::move(type)})[0];
}

}  // namespace

Tensors op(std::string_view name, std::span<const Tensor> operands, AttrDict attrs,
           std::vector<Type> types) {
  return with_bodies(name, operands, std::move(attrs), std::move(types), {});
}

Tensor compare(std::string_view direction, const Tensor& a, const Tensor& b,
               std::string_view type) {
  AttrDict attrs;
  attrs.set("comparison_direction",
            EnumAttr{"stablehlo.comparison_direction", std::string(direction)});
  if (!type.empty())
    attrs.set("compare_type", EnumAttr{"stablehlo.comparison_type", std::string(type)});
  return op("stablehlo.compare", {a, b}, std::move(attrs));
}

Tensor bitcast_convert(const Tensor& x, DType dtype, const Shape& shape) {
  return typed("stablehlo.bitcast_convert", {x}, Type::tensor(dtype, shape));
}
Tensor broadcast_in_dim(const Tensor& x, const Shape& shape, const Ints& dims) {
  AttrDict attrs;
  attrs.set("broadcast_dimensions", ints_attr(dims));
  return typed("stablehlo.broadcast_in_dim", {x}, Type::tensor(x.dtype(), shape), std::move(attrs));
}
Tensor concatenate(std::span<const Tensor> tensors, int64_t dim) {
  AttrDict attrs;
  attrs.set("dimension", int_attr(dim));
  return op("stablehlo.concatenate", tensors, std::move(attrs))[0];
}
Tensor constant(const Array& value) { return Tensor::from(value.copy()); }
Tensor convert(const Tensor& x, DType dtype) {
  return typed("stablehlo.convert", {x}, Type::tensor(dtype, x.shape()));
}
Tensor dynamic_slice(const Tensor& x, std::span<const Tensor> starts, const Ints& sizes) {
  AttrDict attrs;
  attrs.set("slice_sizes", ints_attr(sizes));
  return op("stablehlo.dynamic_slice", join({&x, 1}, starts), std::move(attrs))[0];
}
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, std::span<const Tensor> starts) {
  const Tensor first[] = {x, update};
  return op("stablehlo.dynamic_update_slice", join(first, starts))[0];
}
Tensor iota(DType dtype, const Shape& shape, int64_t dim) {
  return cleave::iota(shape, dim, dtype);
}
Tensor pad(const Tensor& x, const Tensor& value, const Ints& low, const Ints& high,
           const Ints& interior) {
  AttrDict attrs;
  attrs.set("edge_padding_low", ints_attr(low));
  attrs.set("edge_padding_high", ints_attr(high));
  attrs.set("interior_padding", ints_attr(interior));
  return op("stablehlo.pad", {x, value}, std::move(attrs));
}
Tensor reduce_precision(const Tensor& x, int exponent_bits, int mantissa_bits) {
  AttrDict attrs;
  attrs.set("exponent_bits", int_attr(exponent_bits, DType::I32));
  attrs.set("mantissa_bits", int_attr(mantissa_bits, DType::I32));
  return op("stablehlo.reduce_precision", {x}, std::move(attrs));
}
Tensor reshape(const Tensor& x, const Shape& shape) {
  return typed("stablehlo.reshape", {x}, Type::tensor(x.dtype(), shape));
}
Tensor reverse(const Tensor& x, const Ints& dims) {
  AttrDict attrs;
  attrs.set("dimensions", ints_attr(dims));
  return op("stablehlo.reverse", {x}, std::move(attrs));
}
Tensor slice(const Tensor& x, const Ints& start, const Ints& limit, const Ints& strides) {
  AttrDict attrs;
  attrs.set("start_indices", ints_attr(start));
  attrs.set("limit_indices", ints_attr(limit));
  attrs.set("strides", ints_attr(strides));
  return op("stablehlo.slice", {x}, std::move(attrs));
}
Tensor transpose(const Tensor& x, const Ints& permutation) {
  AttrDict attrs;
  attrs.set("permutation", ints_attr(permutation));
  return op("stablehlo.transpose", {x}, std::move(attrs));
}

Tensor dot_general(const Tensor& a, const Tensor& b, const Ints& batch_a, const Ints& batch_b,
                   const Ints& contract_a, const Ints& contract_b) {
  return op("stablehlo.dot_general", {a, b}, dot_attrs({batch_a, batch_b, contract_a, contract_b}));
}
Tensor convolution(const Tensor& x, const Tensor& kernel, AttrDict attrs) {
  return op("stablehlo.convolution", {x, kernel}, std::move(attrs));
}
Tensor gather(const Tensor& x, const Tensor& indices, StructAttr dims, const Ints& sizes,
              bool sorted) {
  AttrDict attrs;
  attrs.set(kGatherDims, std::move(dims));
  attrs.set("slice_sizes", ints_attr(sizes));
  attrs.set("indices_are_sorted", sorted);
  return op("stablehlo.gather", {x, indices}, std::move(attrs));
}
Tensor cholesky(const Tensor& a, bool lower) {
  AttrDict attrs;
  attrs.set("lower", lower);
  return op("stablehlo.cholesky", {a}, std::move(attrs));
}
Tensor triangular_solve(const Tensor& a, const Tensor& b, bool left, bool lower, bool unit_diagonal,
                        std::string_view transpose) {
  AttrDict attrs;
  attrs.set("left_side", left);
  attrs.set("lower", lower);
  attrs.set("unit_diagonal", unit_diagonal);
  attrs.set("transpose_a", EnumAttr{"stablehlo.transpose", std::string(transpose)});
  return op("stablehlo.triangular_solve", {a, b}, std::move(attrs));
}
Tensor fft(const Tensor& x, std::string_view type, const Ints& length) {
  AttrDict attrs;
  attrs.set("fft_type", EnumAttr{"stablehlo.fft_type", std::string(type)});
  attrs.set("fft_length", ints_attr(length));
  return op("stablehlo.fft", {x}, std::move(attrs));
}
Tensor batch_norm_inference(const Tensor& x, const Tensor& scale, const Tensor& offset,
                            const Tensor& mean, const Tensor& variance, double epsilon,
                            int64_t feature) {
  return op("stablehlo.batch_norm_inference", {x, scale, offset, mean, variance},
            norm_attrs(epsilon, feature));
}
Tensors batch_norm_training(const Tensor& x, const Tensor& scale, const Tensor& offset,
                            double epsilon, int64_t feature) {
  const Tensor operands[] = {x, scale, offset};
  return op("stablehlo.batch_norm_training", operands, norm_attrs(epsilon, feature));
}
Tensors batch_norm_grad(const Tensor& x, const Tensor& scale, const Tensor& mean,
                        const Tensor& variance, const Tensor& gradient, double epsilon,
                        int64_t feature) {
  const Tensor operands[] = {x, scale, mean, variance, gradient};
  return op("stablehlo.batch_norm_grad", operands, norm_attrs(epsilon, feature));
}

Tensor rng(const Tensor& a, const Tensor& b, const Shape& shape, std::string_view distribution) {
  AttrDict attrs;
  attrs.set("rng_distribution", EnumAttr{"stablehlo.rng_distribution", std::string(distribution)});
  const Tensor sizes = Tensor::from(DType::I64, {static_cast<int64_t>(shape.size())}, shape);
  return typed("stablehlo.rng", {a, b, sizes}, Type::tensor(a.dtype(), shape), std::move(attrs));
}
Tensors rng_bit_generator(const Tensor& state, DType dtype, const Shape& shape,
                          std::string_view algorithm) {
  AttrDict attrs;
  attrs.set("rng_algorithm", EnumAttr{"stablehlo.rng_algorithm", std::string(algorithm)});
  return op("stablehlo.rng_bit_generator", {&state, 1}, std::move(attrs),
            {state.type(), Type::tensor(dtype, shape)});
}

Tensor map(std::span<const Tensor> tensors, const Body& body) {
  if (tensors.empty()) throw_user("stablehlo.map: no tensors");
  std::vector<DType> dtypes;
  Ints dims;
  for (const Tensor& tensor : tensors) dtypes.push_back(tensor.dtype());
  for (int64_t d = 0; d < tensors[0].rank(); ++d) dims.push_back(d);
  AttrDict attrs;
  attrs.set("dimensions", ints_attr(std::move(dims)));
  const Traced traced = scalar_body("stablehlo.map", dtypes, body);
  return with_bodies("stablehlo.map", tensors, std::move(attrs), {}, {&traced, 1})[0];
}
Tensors reduce(std::span<const Tensor> inputs, std::span<const Tensor> inits, const Ints& dims,
               const Body& body) {
  AttrDict attrs;
  attrs.set("dimensions", ints_attr(dims));
  const Traced traced = scalar_body("stablehlo.reduce", twice(inits), body);
  return with_bodies("stablehlo.reduce", join(inputs, inits), std::move(attrs), {}, {&traced, 1});
}
Tensors reduce_window(std::span<const Tensor> inputs, std::span<const Tensor> inits,
                      AttrDict window, const Body& body) {
  const Traced traced = scalar_body("stablehlo.reduce_window", twice(inits), body);
  return with_bodies("stablehlo.reduce_window", join(inputs, inits), std::move(window), {},
                     {&traced, 1});
}
Tensors scatter(std::span<const Tensor> inputs, const Tensor& indices,
                std::span<const Tensor> updates, StructAttr dims, const Body& body) {
  AttrDict attrs;
  attrs.set(kScatterDims, std::move(dims));
  const Traced traced = scalar_body("stablehlo.scatter", twice(inputs), body);
  return with_bodies("stablehlo.scatter", join(join(inputs, {&indices, 1}), updates),
                     std::move(attrs), {}, {&traced, 1});
}
Tensor select_and_scatter(const Tensor& x, const Tensor& source, const Tensor& init,
                          AttrDict window, const Body& select, const Body& combine) {
  const std::vector<DType> dtypes(2, x.dtype());
  const Traced bodies[] = {scalar_body("stablehlo.select_and_scatter", dtypes, select),
                           scalar_body("stablehlo.select_and_scatter", dtypes, combine)};
  const Tensor operands[] = {x, source, init};
  return with_bodies("stablehlo.select_and_scatter", operands, std::move(window), {}, bodies)[0];
}
Tensors sort(std::span<const Tensor> inputs, int64_t dim, bool stable, const Body& less) {
  AttrDict attrs;
  attrs.set("dimension", int_attr(dim));
  attrs.set("is_stable", stable);
  std::vector<DType> dtypes;  // a0, b0, a1, b1, ...
  for (const Tensor& input : inputs) dtypes.insert(dtypes.end(), 2, input.dtype());
  const Traced traced = scalar_body("stablehlo.sort", dtypes, less);
  return with_bodies("stablehlo.sort", inputs, std::move(attrs), {}, {&traced, 1});
}

}  // namespace cleave::stablehlo
