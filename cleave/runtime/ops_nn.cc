#include "cleave/runtime/ops_nn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/promotion.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

ValueId times(GraphBuilder& b, ValueId x, double factor) {
  return b.binary("stablehlo.multiply", x, b.constant_like(factor, x));
}
ValueId plus(GraphBuilder& b, ValueId x, double term) {
  return b.binary("stablehlo.add", x, b.constant_like(term, x));
}
// The type to compute in.
DType wide(DType dtype) { return dtype == DType::F64 || is_complex(dtype) ? dtype : DType::F32; }

// Integers as F32, like all functions of real numbers.
ValueId as_real(GraphBuilder& b, ValueId x) {
  const DType dtype = b.dtype(x);
  return cast_to(b, x, is_float(dtype) || is_complex(dtype) ? dtype : DType::F32);
}

ValueId minus_stretched(GraphBuilder& b, ValueId x, ValueId y) {
  return b.binary("stablehlo.subtract", x, stretch(b, y, b.shape(x)));
}

ValueId softmax_of(GraphBuilder& b, ValueId x, int64_t dim) {
  const ValueId top = fold(b, x, "stablehlo.maximum", {dim}, true);
  const ValueId parts = b.emit("stablehlo.exponential", {minus_stretched(b, x, top)});
  const ValueId total = fold(b, parts, "stablehlo.add", {dim}, true);
  return b.binary("stablehlo.divide", parts, stretch(b, total, b.shape(x)));
}

ValueId log_softmax_of(GraphBuilder& b, ValueId x, int64_t dim) {
  const ValueId shifted = minus_stretched(b, x, fold(b, x, "stablehlo.maximum", {dim}, true));
  const ValueId total =
      fold(b, b.emit("stablehlo.exponential", {shifted}), "stablehlo.add", {dim}, true);
  return minus_stretched(b, shifted, b.emit("stablehlo.log", {total}));
}

ValueId mean_of(GraphBuilder& b, ValueId x, int64_t dim) {
  const ValueId total = fold(b, x, "stablehlo.add", {dim}, true);
  const auto count = static_cast<double>(b.shape(x)[static_cast<size_t>(dim)]);
  return b.binary("stablehlo.divide", total, b.constant_like(count, total));
}

void check_norm(std::string_view op, const Tensor& x, const Tensor& weight, double epsilon) {
  if (!(epsilon >= 0) || std::isinf(epsilon))
    throw_user("{}: epsilon is {}; it must be a number that is not negative", op, epsilon);
  if (x.rank() == 0) throw_user("{}: a scalar has no last dimension", op);
  if (weight.valid() && weight.shape() != Shape{x.dim(-1)})
    throw_user("{}: tensor<{}> takes a weight of <{}>, got <{}>", op, to_string(x.shape()),
               x.dim(-1), to_string(weight.shape()));
}

// Whether each device has all of every row, so that the library computes rows as a whole. A trace,
// which may be differentiated or compiled, consists of StableHLO's ops.
bool has_whole_rows(const Tensor& x, int64_t dim) {
  const bool last = dim == x.rank() - 1;
  const bool real = is_float(x.dtype()) && x.dtype() != DType::F64;
  return last && real && x.size() > 0 && !x.is_traced() && trace_level() == 0 &&
         (!x.mesh() || x.sharding().dims[static_cast<size_t>(dim)].axes.empty());
}

// params: has weight, has bias, epsilon.
Values library_norm_form(GraphBuilder& b, Params params) {
  const DType dtype = b.dtype(b.arg(0));
  const ValueId x = cast_to(b, b.arg(0), DType::F32);
  std::vector<ValueId> operands{x};
  if (params[0] || params[1]) {
    const Shape vector{b.shape(x).back()};
    operands.push_back(params[0] ? cast_to(b, b.arg(1), DType::F32)
                                 : b.constant(1, DType::F32, vector));
    operands.push_back(params[1] ? cast_to(b, b.arg(params[0] ? 2 : 1), DType::F32)
                                 : b.constant(0, DType::F32, vector));
  }
  AttrDict attrs;
  attrs.set("epsilon", FloatAttr{real_from(params[2]), Type::scalar(DType::F32)});
  return {cast_to(b, b.emit("cleave.layer_norm", std::move(operands), std::move(attrs)), dtype)};
}

// params: has weight, has bias, epsilon, centered.
Values norm_form(GraphBuilder& b, Params params) {
  const DType dtype = b.dtype(b.arg(0));
  const ValueId x = cast_to(b, b.arg(0), wide(dtype));
  const auto last = static_cast<int64_t>(b.shape(x).size()) - 1;
  const ValueId centered = params[3] ? minus_stretched(b, x, mean_of(b, x, last)) : x;
  const ValueId spread = mean_of(b, b.binary("stablehlo.multiply", centered, centered), last);
  const ValueId scale = b.emit("stablehlo.rsqrt", {plus(b, spread, real_from(params[2]))});
  ValueId result = b.binary("stablehlo.multiply", centered, stretch(b, scale, b.shape(x)));
  auto apply = [&](const char* op, size_t arg) {
    const ValueId vector = cast_to(b, b.arg(arg), b.dtype(result));
    result = b.binary(op, result, along(b, vector, b.shape(result), last));
  };
  if (params[0]) apply("stablehlo.multiply", 1);
  if (params[1]) apply("stablehlo.add", params[0] ? 2 : 1);
  return {cast_to(b, result, is_float(dtype) || is_complex(dtype) ? dtype : DType::F32)};
}

// params: causal, scale, has mask, whole rows of scores.
Values attention_form(GraphBuilder& b, Params params) {
  const DType dtype = b.dtype(b.arg(0));
  ValueId q = b.arg(0);
  const ValueId k = b.arg(1), v = b.arg(2);
  const Shape shape = b.shape(q);
  const int64_t groups = b.shape(k)[1], share = shape[1] / groups;
  const int64_t queries = shape[2], keys = b.shape(k)[2];
  q = b.reshape(q, {shape[0], groups, share, queries, shape[3]});
  ValueId scores = emit_dot(b, q, k, {{0, 1}, {0, 1}, {4}, {3}});
  scores = times(b, cast_to(b, scores, wide(dtype)), real_from(params[1]));
  const Shape full = b.shape(scores);
  auto hide = [&](ValueId visible) {
    const ValueId low = b.constant_like(-1e30, scores);
    scores = b.emit("stablehlo.select", {visible, scores, low});
  };
  if (params[0]) {
    const ValueId row = plus(b, b.iota(DType::I32, full, 3), static_cast<double>(keys - queries));
    hide(b.compare("LE", b.iota(DType::I32, full, 4), row));
  }
  if (params[2]) {
    const ValueId mask =
        stretch(b, cast_to(b, b.arg(3), DType::Bool), {shape[0], shape[1], queries, keys});
    hide(b.reshape(mask, full));
  }
  const ValueId weights =
      cast_to(b, params[3] ? b.emit("cleave.softmax", {scores}) : softmax_of(b, scores, 4), dtype);
  const ValueId mixed = emit_dot(b, weights, v, {{0, 1}, {0, 1}, {4}, {2}});
  return {b.reshape(mixed, {shape[0], shape[1], queries, b.shape(v)[3]})};
}

}  // namespace

Tensor relu(const Tensor& x) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        return {b.binary("stablehlo.maximum", b.arg(0), b.constant_like(0, b.arg(0)))};
      },
      {}, {&x, 1});
}

Tensor gelu(const Tensor& x, bool approximate) {
  const int64_t params[] = {approximate};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const ValueId x = as_real(b, b.arg(0));
        ValueId part;
        if (params[0]) {
          const ValueId cube =
              b.binary("stablehlo.multiply", x, b.binary("stablehlo.multiply", x, x));
          const ValueId inner = b.binary("stablehlo.add", x, times(b, cube, 0.044715));
          part = b.emit("stablehlo.tanh", {times(b, inner, std::sqrt(2 / std::numbers::pi))});
        } else {
          part = b.emit("chlo.erf", {times(b, x, std::numbers::sqrt2 / 2)});
        }
        return {b.binary("stablehlo.multiply", x, times(b, plus(b, part, 1), 0.5))};
      },
      params, {&x, 1});
}

Tensor silu(const Tensor& x) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        const ValueId x = as_real(b, b.arg(0));
        return {b.binary("stablehlo.multiply", x, b.emit("stablehlo.logistic", {x}))};
      },
      {}, {&x, 1});
}

Tensor softplus(const Tensor& x) { return logaddexp(x, 0); }

Tensor softmax(const Tensor& x, int64_t dim) {
  const int64_t params[] = {checked_dim("softmax", dim, x.rank())};
  if (has_whole_rows(x, params[0]))
    return record_one(
        [](GraphBuilder& b, Params) -> Values {
          const ValueId rows = cast_to(b, b.arg(0), DType::F32);
          return {cast_to(b, b.emit("cleave.softmax", {rows}), b.dtype(b.arg(0)))};
        },
        {}, {&x, 1});
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const DType dtype = b.dtype(b.arg(0));
        return {cast_to(b, softmax_of(b, cast_to(b, b.arg(0), wide(dtype)), params[0]),
                        is_float(dtype) ? dtype : DType::F32)};
      },
      params, {&x, 1});
}

Tensor log_softmax(const Tensor& x, int64_t dim) {
  const int64_t params[] = {checked_dim("log_softmax", dim, x.rank())};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const DType dtype = b.dtype(b.arg(0));
        return {cast_to(b, log_softmax_of(b, cast_to(b, b.arg(0), wide(dtype)), params[0]),
                        is_float(dtype) ? dtype : DType::F32)};
      },
      params, {&x, 1});
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check_norm("layer_norm", x, weight, epsilon);
  check_norm("layer_norm", x, bias, epsilon);
  const int64_t params[] = {weight.valid(), bias.valid(), real_param(epsilon), true};
  std::vector<Tensor> operands{x};
  if (weight.valid()) operands.push_back(weight);
  if (bias.valid()) operands.push_back(bias);
  const bool traced = std::any_of(operands.begin(), operands.end(),
                                  [](const Tensor& operand) { return operand.is_traced(); });
  const bool library = !traced && has_whole_rows(x, x.rank() - 1);
  return record_one(library ? library_norm_form : norm_form, params, operands);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  check_norm("rms_norm", x, weight, epsilon);
  const int64_t params[] = {weight.valid(), false, real_param(epsilon), false};
  std::vector<Tensor> operands{x};
  if (weight.valid()) operands.push_back(weight);
  return record_one(norm_form, params, operands);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  const bool ranks = q.rank() == 4 && k.rank() == 4 && v.rank() == 4;
  const bool fits = ranks && q.dim(0) == k.dim(0) && k.dim(0) == v.dim(0) && k.dim(1) == v.dim(1) &&
                    k.dim(2) == v.dim(2) && q.dim(3) == k.dim(3) && k.dim(1) > 0 &&
                    q.dim(1) % k.dim(1) == 0;
  if (!fits)
    throw_user(
        "attention: q <{}>, k <{}>, v <{}> must be [b, h, s, d], [b, g, t, d] and [b, g, t, e] "
        "with h a multiple of g",
        to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.dim(3))));
  if (!std::isfinite(scale)) throw_user("attention: the scale is {}; give a finite number", scale);
  if (options.causal && q.dim(2) > k.dim(2))
    throw_user(
        "attention: causal, with {} queries and {} keys: the first {} queries would see no key; "
        "leave them out, or give a mask",
        q.dim(2), k.dim(2), q.dim(2) - k.dim(2));
  const DType common = promote(q.dtype(), promote(k.dtype(), v.dtype()));
  const DType dtype = is_float(common) || is_complex(common) ? common : DType::F32;
  std::vector<Tensor> operands{cast(q, dtype), cast(k, dtype), cast(v, dtype)};
  if (const Tensor& mask = options.mask; mask.valid()) {
    const Shape scores{q.dim(0), q.dim(1), q.dim(2), k.dim(2)};
    if (mask.dtype() != DType::Bool)
      throw_user("attention: the mask is {}; it must be of bools, true where a query may look",
                 to_string(mask.type()));
    if (mask.rank() > 4 || broadcast_shapes("attention: the mask", mask.shape(), scores) != scores)
      throw_user("attention: the mask <{}> does not broadcast to the scores <{}>",
                 to_string(mask.shape()), to_string(scores));
    operands.push_back(mask);
  }
  // A row of scores is whole where the keys are.
  bool library = is_float(dtype) && dtype != DType::F64 && trace_level() == 0 && k.dim(2) > 0 &&
                 (!k.mesh() || k.sharding().dims[2].axes.empty());
  for (const Tensor& operand : operands) library = library && !operand.is_traced();
  const int64_t params[] = {options.causal, real_param(scale), options.mask.valid(), library};
  return record_one(attention_form, params, operands);
}

namespace {

// Labels that are there are looked at; those of a graph are not.
void check_labels(const Tensor& labels, int64_t classes) {
  if (labels.is_traced() || !labels.is_computed()) return;
  for (const TensorShard& shard : labels.addressable_shards()) {
    const Array values = convert(shard.data, DType::F64).contiguous();
    const auto* label = values.data<double>();
    for (int64_t i = 0; i < values.num_elements(); ++i)
      if (label[i] < 0 || label[i] >= static_cast<double>(classes))
        throw_user(
            "cross_entropy: there is a label {}, and the logits have {} classes; leave out "
            "rows without a label, or multiply their cross_entropies by 0",
            label[i], classes);
  }
}

}  // namespace

Tensor cross_entropies(const Tensor& logits, const Tensor& labels) {
  if (!is_integer(labels.dtype()) || logits.rank() == 0 ||
      labels.shape() != Shape(logits.shape().begin(), logits.shape().end() - 1))
    throw_user(
        "cross_entropy: logits {} take integer labels of their shape without the last "
        "dimension, got {}",
        to_string(logits.type()), to_string(labels.type()));
  check_labels(labels, logits.dim(-1));
  const Tensor operands[] = {logits, labels};
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        const ValueId x = cast_to(b, b.arg(0), wide(b.dtype(b.arg(0))));
        const Shape shape = b.shape(x);
        const auto last = static_cast<int64_t>(shape.size()) - 1;
        // In a type that counts all classes.
        const DType dtype = b.dtype(b.arg(1));
        ValueId label = cast_to(b, b.arg(1), byte_size(dtype) < 4 ? DType::I32 : dtype);
        const auto classes = static_cast<double>(shape.back());
        const ValueId bad =
            b.binary("stablehlo.or", b.compare("LT", label, b.constant_like(0, label)),
                     b.compare("GE", label, b.constant_like(classes, label)));
        label = b.emit("stablehlo.select", {bad, b.constant_like(0, label), label});
        const ValueId hit = b.compare("EQ", stretch(b, expand(b, label, last), shape),
                                      b.iota(b.dtype(label), shape, last));
        const ValueId picked =
            b.emit("stablehlo.select", {hit, log_softmax_of(b, x, last), b.constant_like(0, x)});
        const ValueId rows = b.emit("stablehlo.negate", {fold(b, picked, "stablehlo.add", {last})});
        // A label that is no class makes its row NaN, and the gradient of the row.
        const ValueId nan = b.constant_like(std::numeric_limits<double>::quiet_NaN(), rows);
        const ValueId factor = b.emit("stablehlo.select", {bad, nan, b.constant_like(1, rows)});
        return {b.binary("stablehlo.multiply", rows, factor)};
      },
      {}, operands);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels) {
  return mean(cross_entropies(logits, labels));
}

}  // namespace cleave
