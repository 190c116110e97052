#include "cleave/kernels/reduce_window.h"

#include <complex>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/reduce_loops.h"

namespace cleave {
namespace {

// Above this many elements a window is folded one dimension after the other.
constexpr int64_t kLargeWindow = 16;

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

// Dimension d of every element's window, the other dimensions as they are.
Window only(const Window& window, size_t d) {
  Window result;
  result.dims.resize(window.dims.size());
  result.dims[d] = window.dims[d];
  return result;
}

// Windows that grow from one end: out[i] folds everything up to i (forward) or from i (backward).
enum class Scan { None, Forward, Backward };

Scan scan_direction(const Window::Dim& dim, int64_t size) {
  if (dim.stride != 1 || dim.dilation != 1 || dim.base_dilation != 1 || dim.size < size)
    return Scan::None;
  if (dim.low == dim.size - 1 && dim.high == 0) return Scan::Forward;
  if (dim.high == dim.size - 1 && dim.low == 0) return Scan::Backward;
  return Scan::None;
}

}  // namespace

std::vector<int64_t> window_dims(size_t rank) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(rank + d));
  return dims;
}

WindowFold plan_window_fold(const Shape& input, const Window& window, bool init_is_identity) {
  int64_t elements = 1;
  for (const Window::Dim& dim : window.dims) elements *= dim.size;
  WindowFold fold;
  if (elements <= kLargeWindow) {
    fold.is_single = true;
    fold.stages.push_back(window);
    return fold;
  }
  Shape shape = input;
  if (!init_is_identity) {
    fold.before = window;
    shape = plan_padding(input, window).shape;
  }
  for (size_t d = 0; d < window.dims.size(); ++d) {
    Window part = only(window, d);
    if (!init_is_identity) {
      part.dims[d].base_dilation = 1;
      part.dims[d].low = part.dims[d].high = 0;
    }
    if (part.dims[d] == Window::Dim{}) continue;
    const Scan direction = scan_direction(part.dims[d], shape[d]);
    if (direction == Scan::None) {
      fold.stages.push_back(part);
      continue;
    }
    // Everything so far is everything until s steps ago, and the s elements since: log2(n) windows
    // of two.
    for (int64_t step = 1; step < shape[d]; step *= 2) {
      Window two;
      two.dims.resize(window.dims.size());
      two.dims[d] = {.size = 2, .dilation = step};
      (direction == Scan::Forward ? two.dims[d].low : two.dims[d].high) = step;
      fold.stages.push_back(std::move(two));
    }
  }
  return fold;
}

int64_t reduce_window_workspace(const Shape& input, DType dtype, const Window& window,
                                bool init_is_identity) {
  const WindowFold fold = plan_window_fold(input, window, init_is_identity);
  const bool is_widened = is_half(dtype) && !fold.is_single;
  const auto bytes = [&](const Shape& shape) {
    return num_elements(shape) * byte_size(is_widened ? DType::F32 : dtype);
  };
  Shape now = input;
  int64_t held = 0, most = 0;  // of what the last stage left; at any time
  if (fold.before) {
    const Padding padding = plan_padding(now, *fold.before);
    now = padding.shape;
    held = padding.only_crops ? 0 : bytes(now);
  }
  for (const Window& stage : fold.stages) {
    const Padding padding = plan_padding(now, stage);
    for (size_t d = 0; d < now.size(); ++d) now[d] = num_windows(now[d], stage.dims[d]);
    most = std::max(most, held + (padding.only_crops ? 0 : bytes(padding.shape)) + bytes(now));
    held = bytes(now);
  }
  // An operand and a result of another type beside it.
  if (is_widened) return most + bytes(input);
  return std::max<int64_t>(0, most - bytes(now));
}

Array reduce_window(const Array& input, const Window& window, Reducer reducer, const Array& init) {
  const std::vector<int64_t> dims = window_dims(input.rank());
  const Array identity = reduce_identity(reducer, input.dtype());
  const bool pure = identical(init, identity);
  const WindowFold fold = plan_window_fold(input.shape(), window, pure);
  if (fold.is_single)
    return reduce(window_view(pad_and_dilate(input, window, init), window), dims, reducer, init);
  if (is_half(input.dtype()))
    return convert(
        reduce_window(convert(input, DType::F32), window, reducer, convert(init, DType::F32)),
        input.dtype());
  Array result = fold.before ? pad_and_dilate(input, *fold.before, init) : input;
  for (const Window& stage : fold.stages)
    result = reduce(window_view(pad_and_dilate(result, stage, identity), stage), dims, reducer,
                    identity);
  return pure ? result : reduce(result, {}, reducer, init);
}

namespace {

template <typename T, typename Op>
void scatter_typed(const std::vector<int64_t>& positions, const T* updates, T* result) {
  for (size_t i = 0; i < positions.size(); ++i)
    if (positions[i] >= 0) result[positions[i]] = Op::apply(result[positions[i]], updates[i]);
}

}  // namespace

Array scatter_windows(const Shape& shape, const std::vector<int64_t>& positions,
                      const Array& updates, Reducer reducer, const Array& init) {
  const DType dtype = updates.dtype();
  if (is_half(dtype))
    return convert(scatter_windows(shape, positions, convert(updates, DType::F32), reducer,
                                   convert(init, DType::F32)),
                   dtype);
  Array result(dtype, shape);
  copy_elements(init.broadcast(shape, {}), result);
  const Array packed = updates.contiguous();
  using namespace reduce_detail;
  auto run = [&]<typename T>(T) {
    auto go = [&]<template <typename> class Op>() {
      scatter_typed<T, Op<T>>(positions, packed.data<T>(), result.data<T>());
    };
    if (reducer == Reducer::Sum) return go.template operator()<SumOp>();
    if (reducer == Reducer::Prod) return go.template operator()<ProdOp>();
    if constexpr (!kIsComplex<T>) {
      if (reducer == Reducer::Max) return go.template operator()<MaxOp>();
      if (reducer == Reducer::Min) return go.template operator()<MinOp>();
    }
    throw_user("select_and_scatter: {} cannot be scattered by this operator", name(dtype));
  };
  // Overflow wraps: sums and products of signed numbers are those of unsigned ones.
  const bool ordered = reducer == Reducer::Max || reducer == Reducer::Min;
  auto run_signed = [&](auto number, auto unsigned_number) {
    if (ordered) return run(number);
    run(unsigned_number);
  };
  switch (dtype) {
    case DType::Bool:
      reducer = reducer == Reducer::Sum    ? Reducer::Max
                : reducer == Reducer::Prod ? Reducer::Min
                                           : reducer;
      run(uint8_t{});
      break;
    case DType::I8:
      run_signed(int8_t{}, uint8_t{});
      break;
    case DType::I16:
      run_signed(int16_t{}, uint16_t{});
      break;
    case DType::I32:
      run_signed(int32_t{}, uint32_t{});
      break;
    case DType::I64:
      run_signed(int64_t{}, uint64_t{});
      break;
    case DType::U8:
      run(uint8_t{});
      break;
    case DType::U16:
      run(uint16_t{});
      break;
    case DType::U32:
      run(uint32_t{});
      break;
    case DType::U64:
      run(uint64_t{});
      break;
    case DType::F32:
      run(float{});
      break;
    case DType::F64:
      run(double{});
      break;
    case DType::C64:
      run(std::complex<float>{});
      break;
    case DType::C128:
      run(std::complex<double>{});
      break;
    default:
      throw_internal("no window scatter of {}", name(dtype));
  }
  return result;
}

}  // namespace cleave
