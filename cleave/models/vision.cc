#include "cleave/models/vision.h"

#include <cmath>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"

namespace cleave::models {
namespace {

// A convolution that keeps the size, or divides it by the stride.
Tensor same_conv(const Tensor& x, const Tensor& kernel, int64_t stride = 1) {
  const int64_t low = (kernel.dim(0) - 1) / 2, high = kernel.dim(0) / 2;
  WindowOptions window;
  window.strides = {stride, stride};
  window.padding = {low, high, low, high};
  return conv(x, kernel, window);
}

NormWeights init_norm(Init& init, int64_t channels) {
  return {init.ones({channels}), init.zeros({channels})};
}

void check_groups(const char* model, int64_t channels, int64_t groups) {
  if (groups < 1 || channels % groups != 0)
    throw_user("{}: {} groups do not divide {} channels", model, groups, channels);
}

TimeBlock init_time_block(const UNetConfig& config, Init& init, int64_t in, int64_t out) {
  TimeBlock block{init_norm(init, in),
                  init_norm(init, out),
                  init.kernel(3, in, out),
                  init.kernel(3, out, out),
                  init.linear(config.embedding, out),
                  {}};
  if (in != out) block.shortcut.push_back(init.kernel(1, in, out));
  return block;
}

Tensor time_block(const UNetConfig& config, const TimeBlock& w, const Tensor& x,
                  const Tensor& time) {
  Tensor h = same_conv(silu(group_norm(x, w.norm1, config.groups)), w.conv1);
  const Tensor told = matmul(silu(time), w.time);
  h = h + reshape(told, {told.dim(0), 1, 1, told.dim(1)});
  h = same_conv(silu(group_norm(h, w.norm2, config.groups)), w.conv2);
  return h + (w.shortcut.empty() ? x : same_conv(x, w.shortcut[0]));
}

// [b] -> [b, size]: waves of many lengths.
Tensor time_embedding(const Tensor& times, int64_t size) {
  const int64_t half = size / 2;
  const Tensor rate = exp(iota({1, half}, 1, DType::F32) * (-std::log(10000.0) / half));
  const Tensor angle = expand_dims(cast(times, DType::F32), 1) * rate;
  return concat({sin(angle), cos(angle)}, 1);
}

// Every pixel attends to all others.
Tensor pixel_attention(const UNetConfig& config, const UNet& w, const Tensor& x) {
  const int64_t b = x.dim(0), pixels = x.dim(1) * x.dim(2), c = x.dim(3);
  const Tensor h = reshape(group_norm(x, w.attention_norm, config.groups), {b, pixels, c});
  std::vector<Tensor> qkv = split(matmul(h, w.qkv), 3, -1);
  for (Tensor& part : qkv)
    part = transpose(reshape(part, {b, pixels, config.heads, c / config.heads}), {0, 2, 1, 3});
  const Tensor seen = transpose(attention(qkv[0], qkv[1], qkv[2]), {0, 2, 1, 3});
  return x + reshape(matmul(reshape(seen, {b, pixels, c}), w.mix), x.shape());
}

// Every pixel becomes four.
Tensor double_size(const Tensor& x) { return repeat(repeat(x, 2, 1), 2, 2); }

}  // namespace

Tensor group_norm(const Tensor& x, const NormWeights& w, int64_t groups) {
  const Shape shape = x.shape();
  const Tensor grouped = reshape(x, {shape[0], shape[1], shape[2], groups, shape[3] / groups});
  const Dims dims = {1, 2, 4};
  const Tensor centred = grouped - mean(grouped, dims, /*keep=*/true);
  const Tensor scale = rsqrt(mean(square(centred), dims, /*keep=*/true) + 1e-5);
  return reshape(centred * scale, shape) * w.scale + w.shift;
}

Tensor batch_norm(const Tensor& x, const NormWeights& w) {
  const Tensor wide = cast(x, DType::F32);
  const Dims dims = {0, 1, 2};
  const Tensor centred = wide - mean(wide, dims, /*keep=*/true);
  const Tensor scale = rsqrt(mean(square(centred), dims, /*keep=*/true) + 1e-5);
  return cast(centred * scale * cast(w.scale, DType::F32) + cast(w.shift, DType::F32), x.dtype());
}

namespace {

ResBlock init_res_block(const ResNetConfig& config, Init& init, int64_t in, int64_t middle,
                        int64_t out) {
  const bool bottleneck = config.bottleneck;
  const int64_t wide = bottleneck ? middle : out;
  ResBlock block{init.kernel(bottleneck ? 1 : 3, in, wide),
                 init.kernel(3, wide, wide),
                 init_norm(init, wide),
                 init_norm(init, wide),
                 {},
                 1};
  if (in != out) block.shortcut.push_back(init.kernel(1, in, out));
  if (!bottleneck) return block;
  block.conv3.push_back(init.kernel(1, wide, out));
  block.norm3.push_back(init_norm(init, out));
  if (in != out) block.shortcut_norm.push_back(init_norm(init, out));
  return block;
}

Tensor image_norm(const ResNetConfig& config, const Tensor& x, const NormWeights& w) {
  return config.norm == ImageNorm::Batch ? batch_norm(x, w) : group_norm(x, w, config.groups);
}

Tensor res_block(const ResNetConfig& config, const ResBlock& block, const Tensor& x) {
  const auto convolved = [&](const Tensor& y, const Tensor& kernel, int64_t stride) {
    return same_conv(y, config.compute ? cast(kernel, *config.compute) : kernel, stride);
  };
  // The step is that of the 3x3 kernel.
  const bool bottleneck = !block.conv3.empty();
  Tensor h = convolved(x, block.conv1, bottleneck ? 1 : block.stride);
  h = relu(image_norm(config, h, block.norm1));
  h = convolved(h, block.conv2, bottleneck ? block.stride : 1);
  h = image_norm(config, h, block.norm2);
  if (bottleneck) h = image_norm(config, convolved(relu(h), block.conv3[0], 1), block.norm3[0]);
  Tensor shortcut = x;
  if (!block.shortcut.empty()) shortcut = convolved(x, block.shortcut[0], block.stride);
  if (!block.shortcut_norm.empty()) shortcut = image_norm(config, shortcut, block.shortcut_norm[0]);
  return relu(shortcut + h);
}

}  // namespace

ResNet init_resnet(const ResNetConfig& config, Init& init) {
  if (config.norm == ImageNorm::Group) check_groups("resnet", config.channels, config.groups);
  ResNet params;
  params.stem = init.kernel(config.large_stem ? 7 : 3, 3, config.channels);
  params.norm = init_norm(init, config.channels);
  int64_t in = config.channels;
  for (size_t stage = 0; stage < config.blocks.size(); ++stage) {
    const int64_t middle = config.channels << stage;
    const int64_t out = config.bottleneck ? 4 * middle : middle;
    for (int64_t i = 0; i < config.blocks[stage]; ++i) {
      params.blocks.push_back(init_res_block(config, init, in, middle, out));
      params.blocks.back().stride = stage > 0 && i == 0 ? 2 : 1;
      in = out;
    }
  }
  params.head = init.linear(in, config.classes);
  params.bias = init.zeros({config.classes});
  return params;
}

Tensor resnet(const ResNetConfig& config, const ResNet& params, const Tensor& images) {
  const auto in_type = [&](const Tensor& x) {
    return config.compute ? cast(x, *config.compute) : x;
  };
  Tensor x = same_conv(in_type(images), in_type(params.stem), config.large_stem ? 2 : 1);
  x = relu(image_norm(config, x, params.norm));
  if (config.large_stem) {
    WindowOptions window;
    window.strides = {2, 2};
    window.padding = {1, 1, 1, 1};
    x = max_pool(x, {3, 3}, window);
  }
  for (const ResBlock& block : params.blocks) x = res_block(config, block, x);
  return matmul(mean(x, {1, 2}), in_type(params.head)) + in_type(params.bias);
}

UNet init_unet(const UNetConfig& config, Init& init) {
  check_groups("unet", config.channels, config.groups);
  if (config.size % 2 != 0 || config.embedding % 2 != 0)
    throw_user("unet: size={} and embedding={} must be even", config.size, config.embedding);
  const int64_t c = config.channels;
  UNet params;
  params.in = init.kernel(3, 3, c);
  params.time1 = init.linear(config.embedding, config.embedding);
  params.time2 = init.linear(config.embedding, config.embedding);
  params.left = init_time_block(config, init, c, c);
  params.down = init.kernel(3, c, 2 * c);
  params.middle = init_time_block(config, init, 2 * c, 2 * c);
  params.attention_norm = init_norm(init, 2 * c);
  params.qkv = init.linear(2 * c, 6 * c);
  params.mix = init.linear(2 * c, 2 * c);
  params.up = init.kernel(3, 2 * c, c);
  params.right = init_time_block(config, init, 2 * c, c);
  params.out_norm = init_norm(init, c);
  params.out = init.kernel(3, c, 3);
  return params;
}

Tensor unet(const UNetConfig& config, const UNet& params, const Tensor& images,
            const Tensor& times) {
  Tensor time = matmul(time_embedding(times, config.embedding), params.time1);
  time = matmul(silu(time), params.time2);
  const Tensor skip = time_block(config, params.left, same_conv(images, params.in), time);
  Tensor x = time_block(config, params.middle, same_conv(skip, params.down, 2), time);
  x = pixel_attention(config, params, x);
  x = same_conv(double_size(x), params.up);
  x = time_block(config, params.right, concat({x, skip}, 3), time);
  return same_conv(silu(group_norm(x, params.out_norm, config.groups)), params.out);
}

}  // namespace cleave::models
