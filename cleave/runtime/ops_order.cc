#include "cleave/runtime/ops_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_index.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

// Negative ids would count from the end: they become ids beyond it.
Tensor ids_within(std::string_view op, const Tensor& ids, int64_t segments) {
  if (!is_integer(ids.dtype()) || ids.rank() != 1)
    throw_user("{}: ids are a vector of integers, got {}", op, to_string(ids.type()));
  if (segments < 0) throw_user("{}: {} segments", op, segments);
  const Tensor wide =
      cast(ids, ids.dtype() == DType::I64 || ids.dtype() == DType::U64 ? DType::I64 : DType::I32);
  return where(wide < 0, segments, wide);
}

Tensor start_of(const Tensor& data, int64_t segments, int64_t kind) {
  std::vector<int64_t> params{static_cast<int64_t>(data.dtype()), kind, segments};
  params.insert(params.end(), data.shape().begin() + 1, data.shape().end());
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const auto dtype = static_cast<DType>(params[0]);
        const Shape shape(params.begin() + 2, params.end());
        return {params[1] == 0   ? b.constant(0, dtype, shape)
                : params[1] == 1 ? lowest_constant(b, dtype, shape)
                                 : highest_constant(b, dtype, shape)};
      },
      params, {});
}

void check_rows(std::string_view op, const Tensor& data, const Tensor& ids) {
  if (data.rank() == 0 || ids.rank() != 1 || data.dim(0) != ids.dim(0))
    throw_user("{}: data <{}> take one id for each row, got <{}>", op, to_string(data.shape()),
               to_string(ids.shape()));
}

}  // namespace

Tensor quantile(const Tensor& given, double q, std::optional<int64_t> dim, bool keep) {
  if (!(q >= 0 && q <= 1)) throw_user("quantile: q is {}; it must be in [0, 1]", q);
  if (is_complex(given.dtype())) throw_user("quantile: complex numbers have no order; use abs");
  Tensor x = cast(given, real_type(given.dtype()));
  if (!dim) x = flatten(x);
  const int64_t d = dim ? checked_dim("quantile", *dim, x.rank()) : 0, n = x.dim(d);
  if (n == 0)
    throw_user("quantile: dimension {} of tensor<{}> has no elements", d, to_string(x.shape()));
  const Tensor sorted = sort(x, d);
  const double place = q * static_cast<double>(n - 1);
  const auto low = static_cast<int64_t>(std::floor(place));
  const double part = place - static_cast<double>(low);
  auto at = [&](int64_t i) { return slice_dim(sorted, d, i, i + 1); };
  Tensor result = part == 0 ? at(low) : at(low) * (1 - part) + at(low + 1) * part;
  const Tensor last = at(n - 1);  // NaNs are sorted behind all numbers
  result = where(is_nan(last), last, result);
  if (!dim) return keep ? reshape(result, Shape(given.shape().size(), 1)) : reshape(result, {});
  return keep ? result : squeeze(result, {d});
}
Tensor median(const Tensor& x, std::optional<int64_t> dim, bool keep) {
  return quantile(x, 0.5, dim, keep);
}

// Each step doubles the number of elements that are behind a result.
Tensor logcumsumexp(const Tensor& given, int64_t dim, bool reverse) {
  const Tensor x = cast(given, real_type(given.dtype()));
  const int64_t d = checked_dim("logcumsumexp", dim, x.rank()), n = x.dim(d);
  Tensor result = reverse ? flip(x, {d}) : x;
  for (int64_t by = 1; by < n; by *= 2) {
    const Tensor first = slice_dim(result, d, 0, by), later = slice_dim(result, d, by);
    result = concat({first, logaddexp(later, slice_dim(result, d, 0, n - by))}, d);
  }
  return reverse ? flip(result, {d}) : result;
}

Tensor nansum(const Tensor& x, const Dims& dims, bool keep) {
  return is_float(x.dtype()) ? sum(where(is_nan(x), 0, x), dims, keep) : sum(x, dims, keep);
}
Tensor nanmean(const Tensor& x, const Dims& dims, bool keep) {
  if (!is_float(x.dtype())) return mean(x, dims, keep);
  return nansum(x, dims, keep) / cast(sum(!is_nan(x), dims, keep), x.dtype());
}
Tensor count_nonzero(const Tensor& x, const Dims& dims, bool keep) {
  return sum(x != 0, dims, keep);
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  if (sorted.rank() != 1)
    throw_user("searchsorted: takes a vector, got tensor<{}>", to_string(sorted.shape()));
  const Tensor each = expand_dims(values, values.rank());
  return sum(right ? less_equal(sorted, each) : less(sorted, each), {-1});
}

Tensor bincount(const Tensor& x, int64_t length, const Tensor& weights) {
  const Tensor ids = ids_within("bincount", x, length);
  const Tensor counted = weights.valid() ? weights : ones(x.shape(), DType::I32);
  check_rows("bincount", counted, x);
  return start_of(counted, length, 0).at(ids).add(counted);
}

Tensor segment_sum(const Tensor& data, const Tensor& ids, int64_t segments) {
  check_rows("segment_sum", data, ids);
  return start_of(data, segments, 0).at(ids_within("segment_sum", ids, segments)).add(data);
}
Tensor segment_mean(const Tensor& data, const Tensor& ids, int64_t segments) {
  const Tensor real = cast(data, real_type(data.dtype()));
  check_rows("segment_mean", data, ids);
  Shape shape(data.shape().size(), 1);
  shape[0] = segments;
  const Tensor counts = reshape(maximum(bincount(ids, segments), 1), shape);
  return segment_sum(real, ids, segments) / cast(counts, real.dtype());
}
Tensor segment_max(const Tensor& data, const Tensor& ids, int64_t segments) {
  check_rows("segment_max", data, ids);
  return start_of(data, segments, 1).at(ids_within("segment_max", ids, segments)).max(data);
}
Tensor segment_min(const Tensor& data, const Tensor& ids, int64_t segments) {
  check_rows("segment_min", data, ids);
  return start_of(data, segments, 2).at(ids_within("segment_min", ids, segments)).min(data);
}

}  // namespace cleave
