#include "cleave/runtime/ops_index.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

// What is read of one dimension of x: `count` elements from `start` on, `step` apart.
struct Run {
  int64_t start = 0, count = 0, step = 1;
  bool is_whole(int64_t size) const { return start == 0 && count == size && step == 1; }
};

// Indices that have been checked against a tensor. First runs are taken (`runs`, one per dimension
// of x), then dimensions of size 1 go and come (`kept`), then index Tensors apply to dimensions of
// what is left.
struct IndexPlan {
  std::vector<Run> runs;
  Shape kept;
  std::vector<Tensor> elements;
  std::vector<int64_t> element_dims;  // of `kept`
  bool is_together = true;            // index Tensors are neighbours

  bool takes_all(const Shape& shape) const {
    for (size_t d = 0; d < shape.size(); ++d)
      if (!runs[d].is_whole(shape[d])) return false;
    return true;
  }
  // Where the dimensions of index Tensors stand in the result.
  int64_t element_place() const { return is_together ? element_dims[0] : 0; }
};

Run run_of(const Slice& slice, int64_t size) {
  if (slice.step == 0) throw_user("index: a slice has the step 0; it must be another number");
  const bool forward = slice.step > 0;
  const int64_t low = forward ? 0 : -1, high = forward ? size : size - 1;
  auto bound = [&](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + size : index, low, high);
  };
  const int64_t start = slice.start ? bound(*slice.start) : forward ? 0 : size - 1;
  const int64_t stop = slice.stop ? bound(*slice.stop) : forward ? size : -1;
  const int64_t distance = forward ? stop - start : start - stop;
  if (distance <= 0) return {0, 0, 1};
  const int64_t by = forward ? slice.step : -slice.step;
  const int64_t count = (distance - 1) / by + 1;
  return {start, count, count == 1 ? 1 : slice.step};
}

int64_t number_of(int64_t number, const Shape& shape, size_t dim) {
  const int64_t size = shape[dim];
  if (number < -size || number >= size)
    throw_user("index: {} along dimension {} of tensor<{}>; it must be in [{}, {})", number, dim,
               to_string(shape), -size, size);
  return number < 0 ? number + size : number;
}

// With the ellipsis written out as whole dimensions.
std::vector<TensorIndex> all_indices(const Tensor& x, const std::vector<TensorIndex>& given) {
  int64_t used = 0, dots = 0;
  for (const TensorIndex& index : given) {
    used += index.kind != TensorIndex::Kind::NewAxis && index.kind != TensorIndex::Kind::Ellipsis;
    dots += index.kind == TensorIndex::Kind::Ellipsis;
  }
  if (dots > 1) throw_user("index: an ellipsis stands for all dimensions left; {} are given", dots);
  if (used > x.rank())
    throw_user("index: {} indices for tensor<{}> of rank {}", used, to_string(x.shape()), x.rank());
  const std::vector<TensorIndex> rest(static_cast<size_t>(x.rank() - used), TensorIndex(Slice{}));
  std::vector<TensorIndex> indices;
  for (const TensorIndex& index : given) {
    if (index.kind == TensorIndex::Kind::Ellipsis)
      indices.insert(indices.end(), rest.begin(), rest.end());
    else
      indices.push_back(index);
  }
  if (dots == 0) indices.insert(indices.end(), rest.begin(), rest.end());
  return indices;
}

IndexPlan plan_of(const Tensor& x, const std::vector<TensorIndex>& given) {
  const std::vector<TensorIndex> indices = all_indices(x, given);
  const bool has_elements = std::any_of(
      indices.begin(), indices.end(),
      [](const TensorIndex& index) { return index.kind == TensorIndex::Kind::Elements; });
  IndexPlan plan;
  size_t last = 0;  // the index that spoke of elements last
  for (size_t i = 0; i < indices.size(); ++i) {
    const TensorIndex& index = indices[i];
    if (index.kind == TensorIndex::Kind::NewAxis) {
      plan.kept.push_back(1);
      continue;
    }
    const size_t dim = plan.runs.size();
    const int64_t size = x.shape()[dim];
    if (index.kind == TensorIndex::Kind::Range) {
      plan.runs.push_back(run_of(index.range, size));
      plan.kept.push_back(plan.runs.back().count);
      continue;
    }
    const bool is_number = index.kind == TensorIndex::Kind::Number;
    if (is_number) {
      plan.runs.push_back({number_of(index.number, x.shape(), dim), 1, 1});
      if (!has_elements) continue;
    } else {
      plan.runs.push_back({0, size, 1});
      if (!is_integer(index.tensor.dtype()))
        throw_user("index: a Tensor of indices has integers, got {}; cast it",
                   to_string(index.tensor.type()));
    }
    if (!plan.elements.empty() && last + 1 != i) plan.is_together = false;
    last = i;
    plan.element_dims.push_back(static_cast<int64_t>(plan.kept.size()));
    plan.kept.push_back(plan.runs.back().count);
    plan.elements.push_back(is_number ? full({}, 0, DType::I32) : index.tensor);
  }
  return plan;
}

Tensor take_runs(const Tensor& x, const IndexPlan& plan) {
  Tensor result = x;
  if (!plan.takes_all(x.shape())) {
    std::vector<int64_t> start, limit, steps, backwards;
    for (size_t d = 0; d < plan.runs.size(); ++d) {
      const Run& run = plan.runs[d];
      const int64_t far = run.start + std::max<int64_t>(run.count - 1, 0) * run.step;
      start.push_back(std::min(run.start, far));
      limit.push_back(run.count == 0 ? start.back() : std::max(run.start, far) + 1);
      steps.push_back(std::abs(run.step));
      if (run.step < 0) backwards.push_back(static_cast<int64_t>(d));
    }
    result = slice(x, start, limit, steps);
    if (!backwards.empty()) result = flip(result, backwards);
  }
  return result.shape() == plan.kept ? result : reshape(result, plan.kept);
}

// ---- index Tensors

// [..., k]: places of elements along k dimensions; negative ones count from the end.
ValueId places(GraphBuilder& b, std::span<const int64_t> dims) {
  const Shape shape = b.shape(b.arg(0));
  Shape common;
  bool wide = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const ValueId index = b.arg(i + 1);
    common = broadcast_shapes("index", common, b.shape(index));
    wide = wide || byte_size(b.dtype(index)) == 8 || b.dtype(index) == DType::U32;
  }
  const auto rank = static_cast<int64_t>(common.size());
  Values columns;
  for (size_t i = 0; i < dims.size(); ++i) {
    ValueId index = stretch(b, cast_to(b, b.arg(i + 1), wide ? DType::I64 : DType::I32), common);
    const auto size = static_cast<double>(shape[static_cast<size_t>(dims[i])]);
    const ValueId wrapped = b.binary("stablehlo.add", index, b.constant_like(size, index));
    const ValueId negative = b.compare("LT", index, b.constant_like(0, index));
    index = b.emit("stablehlo.select", {negative, wrapped, index});
    columns.push_back(expand(b, index, rank));
  }
  if (columns.size() == 1) return columns[0];
  AttrDict attrs;
  attrs.set("dimension", int_attr(rank));
  return b.emit("stablehlo.concatenate", std::move(columns), std::move(attrs));
}

// params: where the dimensions of the indices stand in the slices, then those that they index.
WindowMap map_of(GraphBuilder& b, ValueId places, Params params) {
  const std::vector<int64_t> dims(params.begin() + 1, params.end());
  const auto rank = static_cast<int64_t>(b.shape(b.arg(0)).size());
  const auto index_rank = static_cast<int64_t>(b.shape(places).size()) - 1;
  const int64_t slice_rank = rank - static_cast<int64_t>(dims.size()) + index_rank;
  std::vector<int64_t> window;
  for (int64_t d = 0; d < slice_rank; ++d)
    if (d < params[0] || d >= params[0] + index_rank) window.push_back(d);
  return {window, dims, {}, {}, dims, index_rank};
}

Values gather_elements_form(GraphBuilder& b, Params params) {
  const ValueId x = b.arg(0), at = places(b, params.subspan(1));
  Shape sizes = b.shape(x);
  for (int64_t d : params.subspan(1)) sizes[static_cast<size_t>(d)] = 1;
  AttrDict attrs;
  attrs.set(kGatherDims, gather_attr(map_of(b, at, params)));
  attrs.set("slice_sizes", ints_attr(std::move(sizes)));
  return {b.emit("stablehlo.gather", {x, at}, std::move(attrs))};
}

enum PlaceOp : int64_t { kSet, kAdd, kMul, kMin, kMax };

// What becomes of an old and a new element.
ValueId combine(GraphBuilder& b, int64_t op, ValueId old, ValueId value) {
  if (op == kAdd) return b.binary("stablehlo.add", old, value);
  if (op == kMul) return b.binary("stablehlo.multiply", old, value);
  if (op == kMin) return b.binary("stablehlo.minimum", old, value);
  return op == kMax ? b.binary("stablehlo.maximum", old, value) : value;
}

// params: the op, then those of gather_elements_form; the last operand are the values.
Values scatter_elements_form(GraphBuilder& b, Params params) {
  const ValueId x = b.arg(0), at = places(b, params.subspan(2));
  const ValueId values = b.arg(params.size() - 1);
  const DType dtype = b.dtype(x);
  AttrDict attrs;
  attrs.set(kScatterDims, scatter_attr(map_of(b, at, params.subspan(1))));
  return emit_with_body(
      b, "stablehlo.scatter", {x, at, values}, {b.type(x)}, std::move(attrs), {dtype, dtype},
      [&](GraphBuilder& r) { r.finish({combine(r, params[0], r.arg(0), r.arg(1))}); });
}

std::vector<int64_t> element_params(const IndexPlan& plan) {
  std::vector<int64_t> params{plan.element_place()};
  params.insert(params.end(), plan.element_dims.begin(), plan.element_dims.end());
  return params;
}

Tensor take_elements(const Tensor& x, const IndexPlan& plan) {
  if (plan.elements.empty()) return x;
  std::vector<Tensor> operands{x};
  operands.insert(operands.end(), plan.elements.begin(), plan.elements.end());
  return record_one(gather_elements_form, element_params(plan), operands);
}

Tensor put_elements(const Tensor& x, const Tensor& values, const IndexPlan& plan, PlaceOp op) {
  std::vector<Tensor> operands{x};
  operands.insert(operands.end(), plan.elements.begin(), plan.elements.end());
  operands.push_back(values);
  std::vector<int64_t> params = element_params(plan);
  params.insert(params.begin(), op);
  return record_one(scatter_elements_form, params, operands);
}

// ---- writing runs

// What changes nothing: x + -0.0, x * 1, min(x, highest), max(x, lowest).
ValueId neutral(GraphBuilder& b, int64_t op, DType dtype) {
  if (op == kMin) return highest_constant(b, dtype);
  if (op == kMax) return lowest_constant(b, dtype);
  return b.constant(op == kMul ? 1.0 : op == kAdd && is_float(dtype) ? -0.0 : 0.0, dtype);
}

// params: the op, then start, count and step for every dimension. The values are padded to the
// shape of x by what changes nothing.
Values put_runs_form(GraphBuilder& b, Params params) {
  const ValueId x = b.arg(0);
  const Shape shape = b.shape(x);
  Shape counts;
  std::vector<int64_t> low, high, between, backwards;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t start = params[3 * d + 1], count = params[3 * d + 2], step = params[3 * d + 3];
    const int64_t span = std::max<int64_t>(count - 1, 0) * std::abs(step);
    low.push_back(step < 0 ? start - span : start);
    counts.push_back(count);
    between.push_back(std::abs(step) - 1);
    high.push_back(shape[d] - low.back() - span - (count > 0 ? 1 : 0));
    if (step < 0) backwards.push_back(static_cast<int64_t>(d));
  }
  auto padded = [&](ValueId value, ValueId around) {
    AttrDict attrs;
    attrs.set("edge_padding_low", ints_attr(low));
    attrs.set("edge_padding_high", ints_attr(high));
    attrs.set("interior_padding", ints_attr(between));
    return b.emit("stablehlo.pad", {value, around}, std::move(attrs));
  };
  ValueId values = b.reshape(b.arg(1), counts);
  if (!backwards.empty()) {
    AttrDict attrs;
    attrs.set("dimensions", ints_attr(backwards));
    values = b.emit("stablehlo.reverse", {values}, std::move(attrs));
  }
  const ValueId placed = padded(values, neutral(b, params[0], b.dtype(x)));
  if (params[0] != kSet) return {combine(b, params[0], x, placed)};
  const ValueId mask = padded(b.constant(1, DType::Bool, counts), b.constant(0, DType::Bool));
  return {b.emit("stablehlo.select", {mask, placed, x})};
}

Tensor put_runs(const Tensor& x, const Tensor& values, const IndexPlan& plan, PlaceOp op) {
  std::vector<int64_t> params{op};
  for (const Run& run : plan.runs) params.insert(params.end(), {run.start, run.count, run.step});
  const Tensor operands[] = {x, values};
  return record_one(put_runs_form, params, operands);
}

// ---- masks

bool is_mask(const TensorIndex& index) {
  return index.kind == TensorIndex::Kind::Elements && index.tensor.dtype() == DType::Bool;
}

// The mask, if that is what is given; it speaks of as many dimensions as it has.
const Tensor* mask_of(const Tensor& x, const std::vector<TensorIndex>& indices) {
  if (std::none_of(indices.begin(), indices.end(), is_mask)) return nullptr;
  if (indices.size() != 1)
    throw_user("index: a mask stands alone; {} indices are given, so use where", indices.size());
  const Shape& shape = indices[0].tensor.shape();
  if (shape.empty() || shape.size() > x.shape().size() ||
      !std::equal(shape.begin(), shape.end(), x.shape().begin()))
    throw_user("index: a mask <{}> does not have the first sizes of tensor<{}>", to_string(shape),
               to_string(x.shape()));
  return &indices[0].tensor;
}

// One index Tensor for every dimension of a mask.
std::vector<TensorIndex> true_places(const Tensor& mask) {
  if (mask.is_traced() || trace_level() != 0)
    throw_user(
        "index: in a trace the number of true elements of a mask {} is not known; use where, or "
        "x.at(mask).set(...)",
        to_string(mask.type()));
  const auto values = mask.to_vector<uint8_t>();
  std::vector<std::vector<int32_t>> found(mask.shape().size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    auto rest = static_cast<int64_t>(i);
    for (size_t d = found.size(); d-- > 0; rest /= mask.shape()[d])
      found[d].push_back(static_cast<int32_t>(rest % mask.shape()[d]));
  }
  std::vector<TensorIndex> indices;
  for (const auto& list : found)
    indices.emplace_back(Tensor::from(DType::I32, {static_cast<int64_t>(list.size())}, list));
  return indices;
}

Tensor combined(const Tensor& x, const Operand& values, PlaceOp op) {
  switch (op) {
    case kAdd:
      return cleave::add(x, values);
    case kMul:
      return cleave::mul(x, values);
    case kMin:
      return minimum(x, values);
    case kMax:
      return maximum(x, values);
    case kSet:
      break;
  }
  return values.is_tensor() ? values.tensor() : scalar(values.number(), x.dtype());
}

Tensor change_masked(const Tensor& x, Tensor mask, const Operand& values, PlaceOp op) {
  if (values.is_tensor() &&
      broadcast_shapes("index", values.tensor().shape(), x.shape()) != x.shape())
    throw_user("index: values <{}> for a mask must broadcast to tensor<{}>",
               to_string(values.tensor().shape()), to_string(x.shape()));
  while (mask.rank() < x.rank()) mask = expand_dims(mask, mask.rank());
  return where(mask, cast(combined(x, values, op), x.dtype()), x);
}

Tensor change(const Tensor& x, const std::vector<TensorIndex>& indices, const Operand& given,
              PlaceOp op) {
  const DType dtype = given.is_tensor() ? promote(x.dtype(), given.tensor().dtype())
                                        : given.number().dtype_with(x.dtype());
  if (dtype != x.dtype())
    throw_user("index: values of {} do not fit into {}; cast one of them",
               name(given.is_tensor() ? given.tensor().dtype() : given.number().dtype()),
               to_string(x.type()));
  if (is_complex(x.dtype()) && (op == kMin || op == kMax))
    throw_user("index: complex numbers have no order; use abs");
  if (const Tensor* mask = mask_of(x, indices)) return change_masked(x, *mask, given, op);
  const IndexPlan plan = plan_of(x, indices);
  const Tensor part = take_runs(x, plan);
  // Its type alone is of interest: what is not read is not computed.
  const Shape shape = take_elements(part, plan).shape();
  Tensor values =
      given.is_tensor() ? cast(given.tensor(), x.dtype()) : scalar(given.number(), x.dtype());
  if (broadcast_shapes("index", values.shape(), shape) != shape)
    throw_user("index: values <{}> do not broadcast to the place <{}>", to_string(values.shape()),
               to_string(shape));
  values = broadcast_to(values, shape);
  if (plan.elements.empty()) return put_runs(x, values, plan, op);
  const Tensor changed = put_elements(part, values, plan, op);
  if (plan.takes_all(x.shape())) return reshape(changed, x.shape());
  return put_runs(x, changed, plan, kSet);
}

}  // namespace

TensorIndex::TensorIndex(Reduction function) : kind(Kind::Range) {
  if (function != static_cast<Reduction>(&all))
    throw_user("index: a function is no index; `all` alone stands for a whole dimension");
}

Tensor index(const Tensor& x, const std::vector<TensorIndex>& indices) {
  if (const Tensor* mask = mask_of(x, indices)) return index(x, true_places(*mask));
  const IndexPlan plan = plan_of(x, indices);
  return take_elements(take_runs(x, plan), plan);
}

Tensor Tensor::operator[](const TensorIndex& index) const { return cleave::index(*this, {index}); }

Tensor TensorAt::set(const Operand& values) const { return change(x_, indices_, values, kSet); }
Tensor TensorAt::add(const Operand& values) const { return change(x_, indices_, values, kAdd); }
Tensor TensorAt::mul(const Operand& values) const { return change(x_, indices_, values, kMul); }
Tensor TensorAt::min(const Operand& values) const { return change(x_, indices_, values, kMin); }
Tensor TensorAt::max(const Operand& values) const { return change(x_, indices_, values, kMax); }

}  // namespace cleave
