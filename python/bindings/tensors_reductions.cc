#include "cleave/core/error.h"
#include "cleave/runtime/ops_arrange.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_matrix.h"
#include "cleave/runtime/ops_order.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "tensors.h"

namespace cleave::python {
namespace {

using namespace nb::literals;
using Reduction = Tensor (*)(const Tensor&, const Ints&, bool);
using Axis = std::optional<int64_t>;

void bind_reduction(nb::module_& m, const char* name, Reduction f) {
  m.def(
      name,
      [f](nb::handle a, nb::handle axis, nb::handle dtype, bool keepdims) {
        Tensor x = to_tensor(a);
        if (auto wanted = to_optional_dtype(dtype)) x = cleave::cast(x, *wanted);
        return f(x, to_axes(axis), keepdims);
      },
      "a"_a, "axis"_a = nb::none(), "dtype"_a = nb::none(), nb::kw_only(), "keepdims"_a = false);
}
void bind_plain_reduction(nb::module_& m, const char* name, Reduction f) {
  m.def(
      name,
      [f](nb::handle a, nb::handle axis, bool keepdims) {
        return f(to_tensor(a), to_axes(axis), keepdims);
      },
      "a"_a, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false);
}

using Variance = Tensor (*)(const Tensor&, const Ints&, bool, double);
void bind_variance(nb::module_& m, const char* name, Variance f) {
  m.def(
      name,
      [f](nb::handle a, nb::handle axis, double ddof, bool keepdims) {
        return f(to_tensor(a), to_axes(axis), keepdims, ddof);
      },
      "a"_a, "axis"_a = nb::none(), nb::kw_only(), "ddof"_a = 0.0, "keepdims"_a = false);
}

// Without an axis: over all elements, as one vector.
using Place = Tensor (*)(const Tensor&, int64_t, bool);
void bind_place(nb::module_& m, const char* name, Place f) {
  m.def(
      name,
      [f](nb::handle a, Axis axis, bool keepdims) {
        const Tensor x = to_tensor(a);
        if (axis) return f(x, *axis, keepdims);
        const Tensor place = f(flatten(x), 0, false);
        return keepdims ? reshape(place, Shape(x.shape().size(), 1)) : place;
      },
      "a"_a, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false);
}
void bind_running(nb::module_& m, const char* name, Place f) {
  m.def(
      name,
      [f](nb::handle a, Axis axis, bool reverse) {
        const Tensor x = to_tensor(a);
        return axis ? f(x, *axis, reverse) : f(flatten(x), 0, reverse);
      },
      "a"_a, "axis"_a = nb::none(), nb::kw_only(), "reverse"_a = false);
}
void bind_sort(nb::module_& m, const char* name, Place f) {
  m.def(
      name,
      [f](nb::handle a, Axis axis, bool descending) {
        const Tensor x = to_tensor(a);
        return axis ? f(x, *axis, descending) : f(flatten(x), 0, descending);
      },
      "a"_a, "axis"_a = -1, nb::kw_only(), "descending"_a = false);
}

void bind_order(nb::module_& m) {
  m.def(
      "quantile",
      [](nb::handle a, double q, Axis axis, bool keepdims) {
        return quantile(to_tensor(a), q, axis, keepdims);
      },
      "a"_a, "q"_a, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false);
  m.def(
      "median",
      [](nb::handle a, Axis axis, bool keepdims) { return median(to_tensor(a), axis, keepdims); },
      "a"_a, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false);
  m.def(
      "searchsorted",
      [](nb::handle a, nb::handle v, const std::string& side) {
        if (side != "left" && side != "right")
          throw_user("searchsorted: side is 'left' or 'right', not '{}'", side);
        return searchsorted(to_tensor(a), to_tensor(v), side == "right");
      },
      "a"_a, "v"_a, "side"_a = "left");
  m.def(
      "_bincount",
      [](nb::handle x, int64_t length, nb::handle weights) {
        return bincount(to_tensor(x), length, weights.is_none() ? Tensor() : to_tensor(weights));
      },
      "x"_a, "length"_a, "weights"_a = nb::none());
  m.def(
      "top_k",
      [](nb::handle x, int64_t k) {
        TopK top = top_k(to_tensor(x), k);
        return nb::make_tuple(top.values, top.indices);
      },
      "operand"_a, "k"_a, "The k largest along the last dimension, and where they are.");
  define(m, "segment_sum", segment_sum, "data"_a, "segment_ids"_a, "num_segments"_a);
  define(m, "segment_mean", segment_mean, "data"_a, "segment_ids"_a, "num_segments"_a);
  define(m, "segment_max", segment_max, "data"_a, "segment_ids"_a, "num_segments"_a);
  define(m, "segment_min", segment_min, "data"_a, "segment_ids"_a, "num_segments"_a);
}

}  // namespace

void bind_reductions(nb::module_& m) {
  nb::module_ np = nb::borrow<nb::module_>(m.attr("numpy"));
  bind_reduction(np, "sum", sum);
  bind_reduction(np, "prod", prod);
  bind_reduction(np, "mean", mean);
  bind_reduction(np, "nansum", nansum);
  bind_reduction(np, "nanmean", nanmean);
  bind_plain_reduction(np, "max", max);
  bind_plain_reduction(np, "min", min);
  bind_plain_reduction(np, "amax", max);
  bind_plain_reduction(np, "amin", min);
  bind_plain_reduction(np, "any", any);
  bind_plain_reduction(np, "all", all);
  bind_plain_reduction(np, "count_nonzero", count_nonzero);
  bind_plain_reduction(np, "logsumexp", logsumexp);
  bind_variance(np, "var", var);
  bind_variance(np, "std", stddev);
  bind_place(np, "argmax", argmax);
  bind_place(np, "argmin", argmin);
  bind_running(np, "cumsum", cumsum);
  bind_running(np, "cumprod", cumprod);
  bind_running(np, "cummax", cummax);
  bind_running(np, "cummin", cummin);
  bind_running(np, "logcumsumexp", logcumsumexp);
  bind_sort(np, "sort", sort);
  bind_sort(np, "argsort", argsort);
  bind_order(np);
}

}  // namespace cleave::python
