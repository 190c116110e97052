#include "cleave/runtime/ops_random.h"

#include <cmath>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/promotion.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/seeds.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

ValueId draw_bits(GraphBuilder& b, ValueId key, DType dtype, Shape shape) {
  Graph& graph = b.graph();
  AttrDict attrs;
  attrs.set("rng_algorithm", EnumAttr{"stablehlo.rng_algorithm", "THREE_FRY"});
  const NodeId node = graph.add_node("stablehlo.rng_bit_generator", {key},
                                     {b.type(key), Type::tensor(dtype, shape)}, std::move(attrs));
  graph.append(b.region(), node);
  return graph.node(node).results[1];
}

// In [0, 1): as many random bits as the mantissa of f32 (f64) has, behind the exponent of [1, 2).
ValueId draw_unit(GraphBuilder& b, ValueId key, DType dtype, Shape shape) {
  const bool wide = dtype == DType::F64;
  const DType bits = wide ? DType::U64 : DType::U32, real = wide ? DType::F64 : DType::F32;
  const ValueId drawn = draw_bits(b, key, bits, shape);
  const ValueId mantissa =
      b.binary("stablehlo.shift_right_logical", drawn, b.constant_like(wide ? 12 : 9, drawn));
  const ValueId one = b.emit_as(Type::tensor(bits, shape), "stablehlo.bitcast_convert",
                                {b.constant(1, real, shape)});
  const ValueId number = b.emit_as(Type::tensor(real, shape), "stablehlo.bitcast_convert",
                                   {b.binary("stablehlo.or", mantissa, one)});
  return b.binary("stablehlo.subtract", number, b.constant(1, real, shape));
}

// dtype, then the shape, behind `skip` others.
Shape shape_from(Params params, size_t skip) {
  return Shape(params.begin() + static_cast<int64_t>(skip), params.end());
}

void check_key(std::string_view op, const Tensor& key) {
  if (key.dtype() != DType::U64 || key.shape() != Shape{2})
    throw_user("{}: a key is tensor<2xui64>, as random_key makes it, got {}", op,
               to_string(key.type()));
}

void check_float(std::string_view op, DType dtype) {
  if (!is_float(dtype)) throw_user("{}: {} is not a float; cast the result", op, name(dtype));
}

Tensor draw(std::string_view op, FormFn form, const Tensor& key, const Shape& shape,
            std::vector<int64_t> params) {
  check_key(op, key);
  for (int64_t size : shape)
    if (size < 0) throw_user("{}: the shape <{}> has a negative size", op, to_string(shape));
  params.insert(params.end(), shape.begin(), shape.end());
  return record_one(form, params, {&key, 1});
}

}  // namespace

uint64_t& next_seed() {
  thread_local uint64_t seed = 0;
  return seed;
}

Tensor random_key(uint64_t seed) {
  const uint64_t words[] = {seed, 0};
  Tensor key = Tensor::from(Array::from_bytes(DType::U64, {2}, words));
  key.record()->constant = true;
  return key;
}

Tensor split_key(const Tensor& key, int64_t count) {
  return draw("split_key",
              [](GraphBuilder& b, Params params) -> Values {
                return {draw_bits(b, b.arg(0), DType::U64, shape_from(params, 0))};
              },
              key, {count, 2}, {});
}

Tensor select_key(const Tensor& keys, int64_t index) {
  if (keys.dtype() != DType::U64 || keys.rank() != 2 || keys.shape()[1] != 2)
    throw_user("select_key: keys are tensor<Nx2xui64>, as split_key makes them, got {}",
               to_string(keys.type()));
  const int64_t count = keys.shape()[0];
  if (index < -count || index >= count)
    throw_user("select_key: key {} of {}; it must be in [{}, {})", index, count, -count, count);
  const int64_t params[] = {index < 0 ? index + count : index};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        return {b.reshape(b.slice(b.arg(0), {params[0], 0}, {params[0] + 1, 2}), {2})};
      },
      params, {&keys, 1});
}

Tensor random_bits(const Tensor& key, const Shape& shape, DType dtype) {
  if (!is_integer(dtype) || dtype == DType::Bool)
    throw_user("random_bits: {} is not a type of integers; uniform and normal draw floats",
               name(dtype));
  return draw(
      "random_bits",
      [](GraphBuilder& b, Params params) -> Values {
        return {draw_bits(b, b.arg(0), static_cast<DType>(params[0]), shape_from(params, 1))};
      },
      key, shape, {static_cast<int64_t>(dtype)});
}

Tensor uniform(const Tensor& key, const Shape& shape, double low, double high, DType dtype) {
  check_float("uniform", dtype);
  if (!(low <= high && std::isfinite(low) && std::isfinite(high)))
    throw_user("uniform: no number in [{}, {}); give finite bounds, the lower one first", low,
               high);
  return draw("uniform",
              [](GraphBuilder& b, Params params) -> Values {
                const auto dtype = static_cast<DType>(params[0]);
                const double low = real_from(params[1]), high = real_from(params[2]);
                ValueId x = draw_unit(b, b.arg(0), dtype, shape_from(params, 3));
                if (high - low != 1)
                  x = b.binary("stablehlo.multiply", x, b.constant_like(high - low, x));
                if (low != 0) x = b.binary("stablehlo.add", x, b.constant_like(low, x));
                return {cast_to(b, x, dtype)};
              },
              key, shape, {static_cast<int64_t>(dtype), real_param(low), real_param(high)});
}

Tensor normal(const Tensor& key, const Shape& shape, DType dtype) {
  check_float("normal", dtype);
  return draw("normal",
              [](GraphBuilder& b, Params params) -> Values {
                const auto dtype = static_cast<DType>(params[0]);
                const ValueId unit = draw_unit(b, b.arg(0), dtype, shape_from(params, 1));
                // In (-1, 1), then through the inverse of the distribution.
                const double low = b.dtype(unit) == DType::F64 ? std::nextafter(-1.0, 0.0)
                                                               : std::nextafter(-1.0f, 0.0f);
                const ValueId x = b.binary(
                    "stablehlo.maximum",
                    b.binary("stablehlo.add",
                             b.binary("stablehlo.multiply", unit, b.constant_like(2, unit)),
                             b.constant_like(low, unit)),
                    b.constant_like(low, unit));
                const ValueId inverse = b.emit("chlo.erf_inv", {x});
                return {cast_to(b,
                                b.binary("stablehlo.multiply", inverse,
                                         b.constant_like(std::numbers::sqrt2, inverse)),
                                dtype)};
              },
              key, shape, {static_cast<int64_t>(dtype)});
}

Tensor bernoulli(const Tensor& key, const Shape& shape, double probability) {
  if (!(probability >= 0 && probability <= 1))
    throw_user("bernoulli: the probability {} is not in [0, 1]", probability);
  return less(uniform(key, shape), probability);
}

Tensor randint(const Tensor& key, const Shape& shape, int64_t low, int64_t high, DType dtype) {
  if (high <= low) throw_user("randint: no integer in [{}, {})", low, high);
  if (!is_integer(dtype))
    throw_user("randint: {} is not a type of integers; cast the result", name(dtype));
  if (!integer_fits(low, dtype) || !integer_fits(static_cast<__int128>(high) - 1, dtype))
    throw_user("randint: [{}, {}) is not within {}, which holds {}; give a wider dtype", low, high,
               name(dtype), integer_range(dtype));
  constexpr int64_t kMost = int64_t{1} << 53;
  if (low < -kMost || high > kMost)
    throw_user("randint: [{}, {}) goes beyond 2^53; use random_bits", low, high);
  return draw("randint",
              [](GraphBuilder& b, Params params) -> Values {
                const ValueId bits = draw_bits(b, b.arg(0), DType::U64, shape_from(params, 3));
                const auto range = static_cast<double>(params[2] - params[1]);
                const ValueId rest =
                    b.binary("stablehlo.remainder", bits, b.constant_like(range, bits));
                const ValueId shifted =
                    b.binary("stablehlo.add", b.convert(rest, DType::I64),
                             b.constant(static_cast<double>(params[1]), DType::I64, b.shape(rest)));
                return {cast_to(b, shifted, static_cast<DType>(params[0]))};
              },
              key, shape, {static_cast<int64_t>(dtype), low, high});
}

Tensor dropout(const Tensor& key, const Tensor& x, double rate) {
  check_key("dropout", key);
  check_float("dropout", x.dtype());
  if (!(rate >= 0 && rate <= 1)) throw_user("dropout: the rate {} is not in [0, 1]", rate);
  if (rate == 0) return x;
  const Tensor operands[] = {key, x};
  const int64_t params[] = {real_param(rate)};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const double rate = real_from(params[0]);
        const ValueId x = b.arg(1);
        const ValueId unit = draw_unit(b, b.arg(0), DType::F32, b.shape(x));
        const ValueId keep = b.compare("GE", unit, b.constant_like(rate, unit));
        const ValueId scaled =
            b.binary("stablehlo.multiply", x, b.constant_like(rate < 1 ? 1 / (1 - rate) : 0, x));
        return {b.emit("stablehlo.select", {keep, scaled, b.constant_like(0, x)})};
      },
      params, operands);
}

Tensor randn(const Shape& shape, std::optional<uint64_t> seed, DType dtype) {
  return normal(random_key(seed ? *seed : next_seed()++), shape, dtype);
}
Tensor rand(const Shape& shape, std::optional<uint64_t> seed, DType dtype) {
  return uniform(random_key(seed ? *seed : next_seed()++), shape, 0, 1, dtype);
}

}  // namespace cleave
