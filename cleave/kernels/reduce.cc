#include "cleave/kernels/reduce.h"

#include <algorithm>
#include <cstdlib>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/reduce_loops.h"

namespace cleave {
namespace {

using reduce_detail::Plan;

Reducer boolean_reducer(Reducer reducer) {
  switch (reducer) {
    case Reducer::Sum:
    case Reducer::Max:
      return Reducer::Or;
    case Reducer::Prod:
    case Reducer::Min:
      return Reducer::And;
    default:
      return reducer;
  }
}

void run(DType dtype, Reducer reducer, const Plan* plan, const void* in, const void* init,
         void* out) {
  if (dtype == DType::Bool) {
    if (!plan)
      *static_cast<uint8_t*>(out) = boolean_reducer(reducer) == Reducer::And;
    else
      reduce_detail::run_integer(DType::U8, boolean_reducer(reducer), plan, in, init, out);
  } else if (is_integer(dtype)) {
    reduce_detail::run_integer(dtype, reducer, plan, in, init, out);
  } else {
    reduce_detail::run_float(dtype, reducer, plan, in, init, out);
  }
}

Plan make_plan(const Shape& shape, const Shape& strides, const std::vector<bool>& folded,
               const Shape& out_strides) {
  Plan plan;
  size_t inner = SIZE_MAX;
  size_t out_dim = 0;
  struct Dim {
    int64_t size, in_stride, out_stride;
    bool folded;
  };
  std::vector<Dim> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t out_stride = folded[d] ? 0 : out_strides[out_dim++];
    if (shape[d] == 1) continue;
    Dim dim{shape[d], strides[d], out_stride, folded[d]};
    // A dimension that continues the one before becomes part of it.
    if (!dims.empty() && dims.back().folded == dim.folded &&
        dims.back().in_stride == dim.in_stride * dim.size &&
        (dim.folded || dims.back().out_stride == dim.out_stride * dim.size)) {
      dim.size *= dims.back().size;
      dims.back() = dim;
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.size() > reduce_detail::kMostDims)
    throw_user("a reduction of {} dimensions that cannot be merged; at most {} are supported",
               dims.size(), reduce_detail::kMostDims);
  for (size_t d = dims.size(); d-- > 0;)
    if (inner == SIZE_MAX || std::abs(dims[d].in_stride) < std::abs(dims[inner].in_stride))
      inner = d;
  // A short folded dimension (a window) goes around a longer kept one that is about as dense.
  for (size_t d = dims.size(); d-- > 0;)
    if (dims[inner].folded && dims[inner].size < 8 && !dims[d].folded && dims[d].size >= 8 &&
        std::abs(dims[d].in_stride) <= 4)
      inner = d;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Dim& dim = dims[d];
    if (d == inner) {
      plan.inner_kept = !dim.folded;
      plan.inner = {dim.size, dim.in_stride, dim.out_stride};
    } else if (dim.folded) {
      plan.folded.push_back({dim.size, dim.in_stride});
    } else {
      plan.kept.push_back({dim.size, dim.in_stride, dim.out_stride});
    }
  }
  return plan;
}

}  // namespace

bool has_reduce(Reducer reducer, DType dtype) {
  if (!has_kernels(dtype)) return false;
  switch (reducer) {
    case Reducer::Sum:
    case Reducer::Prod:
      return true;
    case Reducer::Max:
    case Reducer::Min:
      return !is_complex(dtype);
    default:
      return is_integer(dtype) || dtype == DType::Bool;
  }
}

Array reduce(const Array& input, const std::vector<int64_t>& dims, Reducer reducer,
             const Array& init) {
  internal_check(has_reduce(reducer, input.dtype()) && init.dtype() == input.dtype(),
                 "a reduction that the dtype does not know");
  // Half precision is widened by vectors, not element by element.
  if (input.dtype() == DType::F16)
    return convert(reduce(convert(input, DType::F32), dims, reducer, convert(init, DType::F32)),
                   DType::F16);
  std::vector<bool> folded(input.rank());
  for (int64_t d : dims) folded[d] = true;
  Shape shape;
  for (size_t d = 0; d < input.rank(); ++d)
    if (!folded[d]) shape.push_back(input.shape()[d]);
  Array result(input.dtype(), shape);
  if (result.num_elements() == 0) return result;
  if (input.num_elements() == 0) {
    copy_elements(init.broadcast(shape, {}), result);
    return result;
  }
  const Plan plan = make_plan(input.shape(), input.strides(), folded, result.strides());
  run(input.dtype(), reducer, &plan, input.raw(), init.raw(), result.raw());
  return result;
}

ReduceLoop::ReduceLoop(DType dtype, const Shape& shape, const Shape& strides,
                       const std::vector<int64_t>& dims, Reducer reducer, const Shape& out_strides,
                       int64_t parts)
    : dtype_(dtype), reducer_(reducer) {
  std::vector<bool> folded(shape.size());
  for (int64_t d : dims) folded[d] = true;
  const Plan plan = make_plan(shape, strides, folded, out_strides);
  // The longest dimension that is kept is cut.
  size_t cut = plan.kept.size();
  int64_t longest = plan.inner_kept ? plan.inner.size : 1;
  for (size_t d = 0; d < plan.kept.size(); ++d)
    if (plan.kept[d].size > longest || (cut == plan.kept.size() && plan.kept[d].size >= parts)) {
      cut = d;
      longest = plan.kept[d].size;
    }
  const int64_t step = ceil_div(longest, std::max<int64_t>(1, std::min(parts, longest)));
  for (int64_t begin = 0; begin < longest; begin += step) {
    Part part{plan, 0, 0};
    reduce_detail::KeptDim& dim = cut < plan.kept.size() ? part.plan.kept[cut] : part.plan.inner;
    if (cut < plan.kept.size() || plan.inner_kept) {
      dim.size = std::min(step, longest - begin);
      part.in = begin * dim.in_stride * byte_size(dtype);
      part.out = begin * dim.out_stride * byte_size(dtype);
    }
    parts_.push_back(std::move(part));
  }
}

void ReduceLoop::run(int64_t part, const std::byte* in, const std::byte* init,
                     std::byte* out) const {
  const Part& p = parts_[static_cast<size_t>(part)];
  cleave::run(dtype_, reducer_, &p.plan, in + p.in, init, out + p.out);
}

void fold_rows(DType dtype, Reducer reducer, const std::byte* in, int64_t rows, int64_t cols,
               const std::byte* init, std::byte* out) {
  Plan plan;
  plan.inner = {cols, 1, 1};
  const int64_t size = byte_size(dtype);
  for (int64_t row = 0; row < rows; ++row)
    run(dtype, reducer, &plan, in + row * cols * size, init, out + row * size);
}

Array reduce_identity(Reducer reducer, DType dtype) {
  if (dtype == DType::F16) return convert(reduce_identity(reducer, DType::F32), dtype);
  internal_check(has_reduce(reducer, dtype), "a reduction that the dtype does not know");
  Array result(dtype, {});
  run(dtype, reducer, nullptr, nullptr, nullptr, result.raw());
  return result;
}

}  // namespace cleave
