#include <gtest/gtest.h>

#include <algorithm>

#include "cleave/kernels/reduce_window.h"
#include "test_arrays.h"

namespace cleave {
namespace {

using namespace cleave::testing;

Number apply(Reducer reducer, Number a, Number b) {
  switch (reducer) {
    case Reducer::Sum:
      return a + b;
    case Reducer::Prod:
      return a * b;
    case Reducer::Max:
      return std::max(a.real(), b.real());
    default:
      return std::min(a.real(), b.real());
  }
}

// The definition: padding and holes are init, and init comes first.
std::vector<Number> reference(const Array& input, const Window& window, Reducer reducer,
                              Number init) {
  Shape out, sizes;
  for (size_t d = 0; d < input.rank(); ++d) {
    out.push_back(num_windows(input.shape()[d], window.dims[d]));
    sizes.push_back(window.dims[d].size);
  }
  std::vector<Number> values;
  for_each_index(out, [&](const Shape& index) {
    Number folded = init;
    for_each_index(sizes, [&](const Shape& w) {
      Shape at(input.rank());
      bool inside = true;
      for (size_t d = 0; d < at.size(); ++d) {
        const Window::Dim& dim = window.dims[d];
        const int64_t place = index[d] * dim.stride + w[d] * dim.dilation - dim.low;
        inside &= place >= 0 && place % dim.base_dilation == 0 &&
                  place / dim.base_dilation < input.shape()[d];
        if (inside) at[d] = place / dim.base_dilation;
      }
      folded = apply(reducer, folded, inside ? element(input, offset_of(input, at)) : init);
    });
    values.push_back(folded);
  });
  return values;
}

TEST(ReduceWindow, RandomWindowsAgainstTheDefinition) {
  std::mt19937 random(21);
  auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 200; ++round) {
    const DType dtype = std::vector{DType::F32, DType::I32, DType::BF16, DType::F64}[random() % 4];
    const Reducer reducer =
        std::vector{Reducer::Sum, Reducer::Max, Reducer::Min, Reducer::Prod}[random() % 4];
    Shape shape;
    Window window;
    for (int64_t d = pick(1, 3); d > 0; --d) {
      shape.push_back(pick(1, 7));
      Window::Dim dim;
      dim.size = pick(1, 4);
      dim.stride = pick(1, 3);
      dim.base_dilation = pick(1, 2);
      dim.dilation = pick(1, 2);
      dim.low = pick(-1, 3);
      dim.high = pick(-1, 3);
      window.dims.push_back(dim);
    }
    const int high = reducer == Reducer::Prod ? 1 : 2;
    const Array input = random_array(random, dtype, shape, -high, high);
    const Array init =
        random() % 2 ? reduce_identity(reducer, dtype) : random_array(random, dtype, {}, -1, 1);
    EXPECT_EQ(elements(reduce_window(input, window, reducer, init)),
              reference(input, window, reducer, element(init, 0)))
        << name(dtype) << " " << to_string(shape) << " reducer " << static_cast<int>(reducer);
  }
}

TEST(ReduceWindow, LongWindowsAreCumulative) {
  std::mt19937 random(22);
  for (int64_t n : {1, 2, 17, 100})
    for (bool forward : {true, false}) {
      const Array input = random_array(random, DType::I64, {n, 3});
      Window window;
      window.dims = {{.size = n, .low = forward ? n - 1 : 0, .high = forward ? 0 : n - 1}, {}};
      for (const Number& init : {Number(0), Number(5)}) {
        const Array start = make_array(DType::I64, {}, {init});
        EXPECT_EQ(elements(reduce_window(input, window, Reducer::Sum, start)),
                  reference(input, window, Reducer::Sum, init));
      }
    }
}

TEST(ReduceWindow, ScatterTakesPositionsInOrderAndLeavesOutNegativeOnes) {
  const Array updates = make_array(DType::I8, {4}, {100, 100, 3, 4});
  const Array init = make_array(DType::I8, {}, {1});
  EXPECT_EQ(elements(scatter_windows({3}, {0, 0, -1, 2}, updates, Reducer::Sum, init)),
            (std::vector<Number>{201 - 256, 1, 5}));
}

}  // namespace
}  // namespace cleave
