#include "tensor_cases.h"

namespace cleave {

std::vector<Case> more_cases() {
  return {
      {"more_activations",
       {f32({7, 6}), f32({6})},
       [](Args x) {
         const Tensor a = x[0] * 3;
         return Results{relu6(a * 2),  leaky_relu(a),   prelu(a, x[1]),
                        elu(a, 0.7),   celu(a, 1.5),    selu(a),
                        mish(a),       hard_sigmoid(a), hard_swish(a),
                        hard_tanh(a),  log_sigmoid(a),  softsign(a),
                        squareplus(a), glu(a),          glu(x[0](slice(0, 6)), 0)};
       },
       1000,
       true},
      {"close",
       {f32({7, 6})},
       [](Args x) {
         const Tensor b = where(x[0] > 0.5, x[0] + 1, x[0] * 1.000001);
         const Tensor nan = where(x[0] > 1, NAN, where(x[0] < -1, INFINITY, x[0]));
         return Results{is_close(x[0], b),
                        allclose(x[0], b),
                        allclose(x[0], x[0]),
                        is_close(nan, nan),
                        is_close(nan, nan, {.equal_nan = true}),
                        is_close(x[0], 0, {.absolute = 0.3}),
                        allclose(x[0], b, {.absolute = 2})};
       }},
      {"more_math",
       {f32({7, 6}), f32({7, 6})},
       [](Args x) {
         const Tensor a = abs(x[0]) + 0.1;
         return Results{exp2(x[0]),     log10(a),       hypot(x[0], x[1]), lerp(x[0], x[1], 0.3),
                        xlogy(x[0], a), trunc(x[0] * 3)};
       },
       1000,
       true},
      {"nan_to_num",
       {f32({7, 6})},
       [](Args x) {
         const Tensor a = where(x[0] > 1, INFINITY, where(x[0] < -1, NAN, x[0]));
         return Results{nan_to_num(a), nan_to_num(-a, 2), nansum(where(is_inf(a), 0, a), {1}),
                        nanmean(where(is_inf(a), 0, a), {0}), count_nonzero(relu(x[0]), {1})};
       }},
  };
}

std::vector<Case> arrange_cases() {
  return {
      {"arrange",
       {f32({7, 6, 4})},
       [](Args x) {
         Results all = chunk(x[0], 3);
         for (int64_t k : {1, 2, 3, -3}) all.push_back(rot90(x[0], k));
         all.push_back(rot90(x[0], 1, {1, 2}));
         all.push_back(move_dim(x[0], 0, -1));
         all.push_back(unfold(x[0], 0, 3, 2));
         all.push_back(unfold(x[0], 1, 4));
         all.push_back(diff(x[0]));
         all.push_back(diff(x[0], 2, 0));
         return all;
       },
       1000,
       true},
      {"pad_modes",
       {f32({5, 3})},
       [](Args x) {
         return Results{pad(x[0], {2, 0}, {1, 2}, PadMode::Edge),
                        pad(x[0], {2, 1}, {4, 2}, PadMode::Reflect),
                        pad(x[0], {3, 3}, {1, 2}, PadMode::Symmetric),
                        pad(x[0], {2, 5}, {7, 0}, PadMode::Wrap)};
       },
       1000,
       true},
      {"meshgrid",
       {f32({3}), f32({4}), f32({2})},
       [](Args x) {
         Results all = meshgrid({x[0], x[1], x[2]});
         for (const Tensor& each : meshgrid({x[0], x[1]}, true)) all.push_back(each);
         return all;
       },
       1000,
       true},
  };
}

std::vector<Case> order_cases() {
  return {
      {"order",
       {f32({7, 6})},
       [](Args x) {
         return Results{median(x[0]),
                        median(x[0], 1),
                        quantile(x[0], 0.3, 0, true),
                        quantile(x[0], 1),
                        logcumsumexp(x[0], 0),
                        logcumsumexp(x[0] * 40, 1),
                        logcumsumexp(x[0], 1, true)};
       },
       1000,
       true},
      {"searchsorted",
       {f32({9}), f32({5, 4})},
       [](Args x) {
         const Tensor sorted = sort(round(x[0] * 4)), values = round(x[1] * 4);
         return Results{searchsorted(sorted, values), searchsorted(sorted, values, true)};
       }},
      {"segment_sums",
       {f32({9, 4}), i32({9})},
       [](Args x) {
         const Tensor ids = minimum(x[1], 6) - 1;
         return Results{segment_sum(x[0], ids, 5), segment_mean(x[0], ids, 5)};
       },
       1000,
       true},
      {"segments",
       {f32({9, 4}), i32({9}), f32({9})},
       [](Args x) {
         const Tensor ids = minimum(x[1], 6) - 1;  // -1 belongs to no segment
         return Results{segment_sum(x[0], ids, 5), segment_mean(x[0], ids, 5),
                        segment_max(x[0], ids, 3), segment_min(x[0], ids, 5),
                        bincount(ids, 5),          bincount(ids, 4, x[2])};
       }},
  };
}

std::vector<Case> norm_cases() {
  return {
      {"batch_norm",
       {f32({6, 5, 4}), f32({4}), f32({4}), f32({4}), f32({4})},
       [](Args x) {
         const Tensor variance = square(x[4]) + 0.5;
         const BatchNorm train = batch_norm(x[0], x[1], x[2], x[3], variance);
         const BatchNorm test = batch_norm(x[0], x[1], x[2], x[3], variance, {.training = false});
         const BatchNorm first =
             batch_norm(transpose(x[0], {0, 2, 1}), {}, {}, x[3], variance,
                        {.momentum = 0.5, .layout = ImageLayout::ChannelsFirst});
         return Results{train.y, train.mean, train.variance, test.y, first.y, first.variance};
       },
       4000,
       true},
      {"group_norm",
       {f32({3, 5, 6}), f32({6}), f32({6})},
       [](Args x) {
         return Results{
             group_norm(x[0], 2, x[1], x[2]), group_norm(x[0], 6),
             group_norm(transpose(x[0], {0, 2, 1}), 3, x[1], {}, 1e-3, ImageLayout::ChannelsFirst)};
       },
       4000,
       true},
      {"cross_entropy_options",
       {f32({7, 10}), i32({7})},
       [](Args x) {
         const Tensor labels = where(arange(7) % 3 == 0, -100, x[1]);
         return Results{
             cross_entropies(x[0], labels, {.ignore_index = -100}),
             cross_entropy(x[0], labels, {.ignore_index = -100}),
             cross_entropy(x[0], x[1], {.label_smoothing = 0.1}),
             cross_entropy(x[0], labels, {.ignore_index = -100, .label_smoothing = 0.2})};
       },
       4000,
       true},
      {"interpolate",
       {f32({6, 7, 3})},
       [](Args x) {
         Results all;
         for (auto method : {Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic,
                             Interpolation::Lanczos3, Interpolation::Lanczos5}) {
           all.push_back(interpolate(x[0], {11, 4, 3}, method));
           all.push_back(interpolate(x[0], {3, 16, 3}, method, false));
         }
         return all;
       },
       4000,
       true},
  };
}

}  // namespace cleave
