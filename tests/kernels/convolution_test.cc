#include "cleave/kernels/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "test_arrays.h"

namespace cleave {
namespace {

using namespace cleave::testing;

// The definition, one product at a time.
std::vector<Number> reference(const Array& input, const Array& kernel, const ConvDims& dims,
                              const ConvWindow& conv, DType dtype) {
  const Shape shape = convolution_shape(input.shape(), kernel.shape(), dims, conv);
  std::vector<Number> values;
  const size_t spatial = dims.input_spatial.size();
  Shape window_shape;
  for (int64_t d : dims.kernel_spatial) window_shape.push_back(kernel.shape()[d]);
  const int64_t outputs = kernel.shape()[dims.kernel_output_feature];
  const int64_t groups = conv.feature_groups * conv.batch_groups;
  for_each_index(shape, [&](const Shape& index) {
    const int64_t o = index[dims.output_feature], n = index[dims.output_batch];
    const int64_t group = o / (outputs / groups);
    Number sum = 0;
    for_each_index(window_shape, [&](const Shape& w) {
      Shape i(input.rank()), k(kernel.rank());
      for (size_t s = 0; s < spatial; ++s) {
        const Window::Dim& dim = conv.window.dims[s];
        int64_t at = index[dims.output_spatial[s]] * dim.stride + w[s] * dim.dilation - dim.low;
        if (at < 0 || at % dim.base_dilation != 0) return;
        at /= dim.base_dilation;
        if (at >= input.shape()[dims.input_spatial[s]]) return;
        i[dims.input_spatial[s]] = at;
        k[dims.kernel_spatial[s]] = conv.reversed[s] ? window_shape[s] - 1 - w[s] : w[s];
      }
      k[dims.kernel_output_feature] = o;
      const int64_t batch = input.shape()[dims.input_batch] / conv.batch_groups;
      i[dims.input_batch] = conv.batch_groups > 1 ? group * batch + n : n;
      const int64_t features = kernel.shape()[dims.kernel_input_feature];
      for (int64_t c = 0; c < features; ++c) {
        k[dims.kernel_input_feature] = c;
        i[dims.input_feature] = conv.feature_groups > 1 ? group * features + c : c;
        sum += element(input, offset_of(input, i)) * element(kernel, offset_of(kernel, k));
      }
    });
    values.push_back(dtype == DType::Bool ? Number(sum.real() != 0) : sum);
  });
  return values;
}

struct Case {
  Array input, kernel;
  ConvDims dims;
  ConvWindow conv;
};

Case random_case(std::mt19937& random, DType dtype) {
  auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  Case c;
  const size_t spatial = static_cast<size_t>(pick(0, 3)), rank = spatial + 2;
  if (random() % 3 == 0)
    c.conv.feature_groups = pick(2, 3);
  else if (random() % 3 == 0)
    c.conv.batch_groups = pick(2, 3);
  const int64_t features = pick(1, 3), groups = c.conv.feature_groups * c.conv.batch_groups;
  auto order = [&] {
    std::vector<int64_t> dims(rank);
    std::iota(dims.begin(), dims.end(), 0);
    std::shuffle(dims.begin(), dims.end(), random);
    return dims;
  };
  const auto in = order(), ker = order(), out = order();
  Shape input(rank), kernel(rank);
  c.dims.input_batch = in[0];
  c.dims.input_feature = in[1];
  c.dims.kernel_input_feature = ker[0];
  c.dims.kernel_output_feature = ker[1];
  c.dims.output_batch = out[0];
  c.dims.output_feature = out[1];
  input[in[0]] = pick(1, 2) * c.conv.batch_groups;
  input[in[1]] = features * c.conv.feature_groups;
  kernel[ker[0]] = features;
  kernel[ker[1]] = pick(1, 3) * groups;
  for (size_t s = 0; s < spatial; ++s) {
    c.dims.input_spatial.push_back(in[2 + s]);
    c.dims.kernel_spatial.push_back(ker[2 + s]);
    c.dims.output_spatial.push_back(out[2 + s]);
    Window::Dim dim;
    dim.size = pick(1, 3);
    dim.stride = pick(1, 2);
    dim.base_dilation = random() % 3 == 0 ? 2 : 1;
    dim.dilation = random() % 3 == 0 ? 2 : 1;
    dim.low = pick(-1, 2);
    dim.high = pick(-1, 2);
    c.conv.window.dims.push_back(dim);
    c.conv.reversed.push_back(random() % 4 == 0);
    input[in[2 + s]] = pick(3, 6);
    kernel[ker[2 + s]] = dim.size;
  }
  c.input = random_array(random, dtype, input, -2, 2);
  c.kernel = random_array(random, dtype, kernel, -2, 2);
  return c;
}

TEST(Convolution, EveryDtypeAgainstTheDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round)
    for (DType dtype : all_dtypes()) {
      const Case c = random_case(random, dtype);
      if (dtype == DType::I8 || dtype == DType::U8) continue;  // may overflow
      EXPECT_EQ(elements(convolution(c.input, c.kernel, c.dims, c.conv, dtype)),
                reference(c.input, c.kernel, c.dims, c.conv, dtype))
          << name(dtype) << " " << to_string(c.input.shape()) << " * "
          << to_string(c.kernel.shape()) << " groups " << c.conv.feature_groups << " "
          << c.conv.batch_groups;
    }
}

TEST(Convolution, Float32AndBfloat16InOneDnn) {
  std::mt19937 random(12);
  for (int round = 0; round < 150; ++round)
    for (DType dtype : {DType::F32, DType::BF16}) {
      const Case c = random_case(random, dtype);
      EXPECT_EQ(elements(convolution(c.input, c.kernel, c.dims, c.conv, dtype)),
                reference(c.input, c.kernel, c.dims, c.conv, dtype))
          << name(dtype) << " " << to_string(c.input.shape()) << " * "
          << to_string(c.kernel.shape());
    }
}

TEST(Convolution, ImageInTheUsualLayouts) {
  std::mt19937 random(13);
  ConvWindow conv;
  conv.window.dims = {{.size = 3, .stride = 2, .low = 1, .high = 1},
                      {.size = 3, .low = 1, .high = 1}};
  conv.reversed = {false, false};
  const ConvDims nhwc{0, 3, {1, 2}, 2, 3, {0, 1}, 0, 3, {1, 2}};
  const ConvDims nchw{0, 1, {2, 3}, 1, 0, {2, 3}, 0, 1, {2, 3}};
  const Array a = random_array(random, DType::F32, {2, 9, 10, 16}),
              b = random_array(random, DType::F32, {3, 3, 16, 32});
  EXPECT_EQ(elements(convolution(a, b, nhwc, conv, DType::F32)),
            reference(a, b, nhwc, conv, DType::F32));
  const Array c = random_array(random, DType::F32, {2, 16, 9, 10}),
              d = random_array(random, DType::F32, {32, 16, 3, 3});
  EXPECT_EQ(elements(convolution(c, d, nchw, conv, DType::F32)),
            reference(c, d, nchw, conv, DType::F32));
}

}  // namespace
}  // namespace cleave
