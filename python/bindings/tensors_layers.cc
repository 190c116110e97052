
#include "cleave/core/error.h"
#include "cleave/runtime/ops_activation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_norm.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_resize.h"
#include "tensors.h"

namespace cleave::python {
namespace {

using namespace nb::literals;
using Unary = Tensor (*)(const Tensor&);

Tensor optional_tensor(nb::handle object) {
  return object.is_none() ? Tensor() : to_tensor(object);
}

ImageLayout layout_of(bool channels_first) {
  return channels_first ? ImageLayout::ChannelsFirst : ImageLayout::ChannelsLast;
}

void bind_activations(nb::module_& m) {
  const std::pair<const char*, Unary> table[] = {
      {"relu", relu},
      {"silu", silu},
      {"swish", silu},
      {"softplus", softplus},
      {"sigmoid", sigmoid},
      {"relu6", relu6},
      {"selu", selu},
      {"mish", mish},
      {"hard_sigmoid", hard_sigmoid},
      {"hard_swish", hard_swish},
      {"hard_silu", hard_swish},
      {"hard_tanh", hard_tanh},
      {"log_sigmoid", log_sigmoid},
      {"soft_sign", softsign},
  };
  for (const auto& [name, f] : table) define(m, name, f, "x"_a);
  define(m, "gelu", gelu, "x"_a, "approximate"_a = true);
  define(m, "leaky_relu", leaky_relu, "x"_a, "negative_slope"_a = 0.01);
  define(m, "prelu", prelu, "x"_a, "slope"_a);
  define(m, "elu", elu, "x"_a, "alpha"_a = 1.0);
  define(m, "celu", celu, "x"_a, "alpha"_a = 1.0);
  define(m, "squareplus", squareplus, "x"_a, "b"_a = 4.0);
  define(m, "glu", glu, "x"_a, "axis"_a = -1);
  define(m, "softmax", softmax, "x"_a, "axis"_a = -1);
  define(m, "log_softmax", log_softmax, "x"_a, "axis"_a = -1);
}

void bind_norms(nb::module_& m) {
  m.def(
      "layer_norm",
      [](nb::handle x, nb::handle weight, nb::handle bias, double epsilon) {
        return layer_norm(to_tensor(x), optional_tensor(weight), optional_tensor(bias), epsilon);
      },
      "x"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "epsilon"_a = 1e-5,
      "Over the last dimension.");
  m.def(
      "rms_norm",
      [](nb::handle x, nb::handle weight, double epsilon) {
        return rms_norm(to_tensor(x), optional_tensor(weight), epsilon);
      },
      "x"_a, "weight"_a = nb::none(), "epsilon"_a = 1e-6);
  m.def(
      "batch_norm",
      [](nb::handle x, nb::handle weight, nb::handle bias, nb::handle mean, nb::handle variance,
         bool training, double momentum, double epsilon, bool channels_first) {
        BatchNorm made = batch_norm(to_tensor(x), optional_tensor(weight), optional_tensor(bias),
                                    to_tensor(mean), to_tensor(variance),
                                    {training, momentum, epsilon, layout_of(channels_first)});
        return nb::make_tuple(made.y, made.mean, made.variance);
      },
      "x"_a, "weight"_a, "bias"_a, "running_mean"_a, "running_variance"_a, nb::kw_only(),
      "training"_a = true, "momentum"_a = 0.1, "epsilon"_a = 1e-5, "channels_first"_a = false,
      "The result, and the running mean and variance afterwards.");
  m.def(
      "group_norm",
      [](nb::handle x, int64_t groups, nb::handle weight, nb::handle bias, double epsilon,
         bool channels_first) {
        return group_norm(to_tensor(x), groups, optional_tensor(weight), optional_tensor(bias),
                          epsilon, layout_of(channels_first));
      },
      "x"_a, "groups"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), nb::kw_only(),
      "epsilon"_a = 1e-5, "channels_first"_a = false);
}

using Entropy = Tensor (*)(const Tensor&, const Tensor&, const CrossEntropyOptions&);
void bind_entropy(nb::module_& m, const char* name, Entropy f, const char* doc) {
  m.def(
      name,
      [f](nb::handle logits, nb::handle labels, std::optional<int64_t> ignore, double smoothing) {
        return f(to_tensor(logits), to_tensor(labels), {ignore, smoothing});
      },
      "logits"_a, "labels"_a, nb::kw_only(), "ignore_index"_a = nb::none(),
      "label_smoothing"_a = 0.0, doc);
}

WindowOptions window_of(nb::handle strides, nb::handle padding, nb::handle dilation, int64_t groups,
                        bool channels_first) {
  Ints pads;
  if (!padding.is_none())
    for (nb::handle pair : padding)
      for (int64_t size : to_ints(pair)) pads.push_back(size);
  return {to_ints(strides), pads, to_ints(dilation), groups, layout_of(channels_first)};
}

void bind_windows(nb::module_& m) {
  m.def(
      "conv",
      [](nb::handle x, nb::handle kernel, nb::handle strides, nb::handle padding,
         nb::handle dilation, int64_t groups, bool channels_first) {
        return conv(to_tensor(x), to_tensor(kernel),
                    window_of(strides, padding, dilation, groups, channels_first));
      },
      "x"_a, "kernel"_a, nb::kw_only(), "strides"_a = nb::none(), "padding"_a = nb::none(),
      "dilation"_a = nb::none(), "groups"_a = 1, "channels_first"_a = false,
      "Padding is (low, high) for each dimension.");
  using Pool = Tensor (*)(const Tensor&, const Ints&, const WindowOptions&);
  for (const auto& [name, f] : {std::pair<const char*, Pool>("max_pool", max_pool),
                                std::pair<const char*, Pool>("avg_pool", avg_pool)})
    m.def(
        name,
        [f = f](nb::handle x, nb::handle window, nb::handle strides, nb::handle padding,
                bool channels_first) {
          return f(to_tensor(x), to_ints(window),
                   window_of(strides, padding, nb::none(), 1, channels_first));
        },
        "x"_a, "window"_a, nb::kw_only(), "strides"_a = nb::none(), "padding"_a = nb::none(),
        "channels_first"_a = false);
}

Interpolation interpolation_of(const std::string& method) {
  if (method == "nearest") return Interpolation::Nearest;
  if (method == "linear" || method == "bilinear") return Interpolation::Linear;
  if (method == "cubic" || method == "bicubic") return Interpolation::Cubic;
  if (method == "lanczos3") return Interpolation::Lanczos3;
  if (method == "lanczos5") return Interpolation::Lanczos5;
  throw_user("resize: method is nearest, linear, cubic, lanczos3 or lanczos5, not '{}'", method);
}

}  // namespace

void bind_layers(nb::module_& m) {
  nb::module_ nn = m.def_submodule("nn", "Layers, activations and losses.");
  bind_activations(nn);
  bind_norms(nn);
  bind_entropy(nn, "cross_entropies", cross_entropies, "The loss of each row of logits.");
  bind_entropy(nn, "cross_entropy", cross_entropy, "The mean loss of all rows.");
  bind_windows(nn);
  nn.def(
      "attention",
      [](nb::handle q, nb::handle k, nb::handle v, bool causal, std::optional<double> scale,
         nb::handle mask) {
        return attention(to_tensor(q), to_tensor(k), to_tensor(v),
                         {causal, scale, optional_tensor(mask)});
      },
      "q"_a, "k"_a, "v"_a, nb::kw_only(), "causal"_a = false, "scale"_a = nb::none(),
      "mask"_a = nb::none(), "softmax(q k^T scale) v for q [b, h, s, d] and k, v [b, g, t, d].");
  define(nn, "embedding", embedding, "table"_a, "ids"_a);
  define(nn, "one_hot", one_hot, "x"_a, "num_classes"_a, "dtype"_a = "float32");
  define(nn, "dropout", dropout, "key"_a, "x"_a, "rate"_a);
  nn.def(
      "resize",
      [](nb::handle image, nb::handle shape, const std::string& method, bool antialias) {
        return interpolate(to_tensor(image), to_ints(shape), interpolation_of(method), antialias);
      },
      "image"_a, "shape"_a, "method"_a = "linear", "antialias"_a = true);
  nn.def(
      "logsumexp",
      [](nb::handle a, nb::handle axis, bool keepdims) {
        return logsumexp(to_tensor(a), to_axes(axis), keepdims);
      },
      "a"_a, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false);
}

}  // namespace cleave::python
