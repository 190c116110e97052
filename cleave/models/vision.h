#pragma once

#include <optional>
#include <vector>

#include "cleave/models/init.h"

// Convolutional networks, channels last: a residual network for images, and the block of a
// diffusion U-Net. Norms are over groups of channels of one image, so that a result does not
// depend on what else is in the batch, unless the config asks for norms over the batch.
namespace cleave::models {

struct NormWeights {
  Tensor scale, shift;  // [channels]
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("scale", scale);
    v("shift", shift);
  }
};

// [b, h, w, c] normalised over h, w and the channels of each of `groups` groups.
Tensor group_norm(const Tensor& x, const NormWeights& w, int64_t groups);

// [b, h, w, c] normalised over b, h and w, in f32.
Tensor batch_norm(const Tensor& x, const NormWeights& w);

enum class ImageNorm : uint8_t { Group, Batch };

// With blocks {3, 4, 6, 3}, 64 channels, 1000 classes, images of 224, bottlenecks, a large stem and
// norms over the batch it is ResNet-50.
struct ResNetConfig {
  std::vector<int64_t> blocks = {2, 2};  // of each stage; a stage has twice the channels
  int64_t channels = 16;                 // of the first stage
  int64_t classes = 10;
  int64_t size = 16;  // height and width of the images
  int64_t batch = 8;
  int64_t groups = 4;
  // 1x1, 3x3 and 1x1 kernels to four times the channels, in the place of two 3x3 kernels; and the
  // shortcut has a norm.
  bool bottleneck = false;
  bool large_stem = false;  // 7x7 by steps of 2, and the largest of 3x3 by steps of 2
  ImageNorm norm = ImageNorm::Group;
  std::optional<DType> compute = std::nullopt;  // kernels and images are converted to it before use
};

struct ResBlock {
  Tensor conv1, conv2;
  NormWeights norm1, norm2;
  std::vector<Tensor> shortcut;  // a 1x1 kernel if the shape changes
  int64_t stride = 1;
  std::vector<Tensor> conv3 = {};  // of a bottleneck
  std::vector<NormWeights> norm3 = {}, shortcut_norm = {};
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("conv1", conv1);
    v("norm1", norm1);
    v("conv2", conv2);
    v("norm2", norm2);
    v("shortcut", shortcut);
    v("conv3", conv3);
    v("norm3", norm3);
    v("shortcut_norm", shortcut_norm);
  }
};

struct ResNet {
  Tensor stem;  // [3, 3, 3, channels], or [7, 7, 3, channels]
  NormWeights norm;
  std::vector<ResBlock> blocks;
  Tensor head, bias;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("stem", stem);
    v("norm", norm);
    v("blocks", blocks);
    v("head", head);
    v("bias", bias);
  }
};

ResNet init_resnet(const ResNetConfig& config, Init& init);
// Images [b, size, size, 3] -> logits [b, classes].
Tensor resnet(const ResNetConfig& config, const ResNet& params, const Tensor& images);

struct UNetConfig {
  int64_t channels = 16;
  int64_t embedding = 32;  // of the time
  int64_t size = 16;
  int64_t batch = 4;
  int64_t groups = 4;
  int64_t heads = 2;  // of the attention at the lowest resolution
};

// A residual block that takes the time as an input.
struct TimeBlock {
  NormWeights norm1, norm2;
  Tensor conv1, conv2, time;
  std::vector<Tensor> shortcut;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("norm1", norm1);
    v("conv1", conv1);
    v("time", time);
    v("norm2", norm2);
    v("conv2", conv2);
    v("shortcut", shortcut);
  }
};

// The block goes down, attends at half the resolution, and goes up, with a skip over all of it.
struct UNet {
  Tensor in, down, up, out;  // kernels
  Tensor time1, time2;       // [embedding, embedding]
  TimeBlock left, middle, right;
  NormWeights attention_norm, out_norm;
  Tensor qkv, mix;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("in", in);
    v("time1", time1);
    v("time2", time2);
    v("left", left);
    v("down", down);
    v("middle", middle);
    v("attention_norm", attention_norm);
    v("qkv", qkv);
    v("mix", mix);
    v("up", up);
    v("right", right);
    v("out_norm", out_norm);
    v("out", out);
  }
};

UNet init_unet(const UNetConfig& config, Init& init);
// Noisy images [b, size, size, 3] and times [b] -> the noise [b, size, size, 3].
Tensor unet(const UNetConfig& config, const UNet& params, const Tensor& images,
            const Tensor& times);

}  // namespace cleave::models
