#include "tensor_cases.h"

namespace cleave {

std::vector<Case> layer_cases() {
  return {
      // layers
      {"activations",
       {f32({7, 6})},
       [](Args x) {
         return Results{relu(x[0]), gelu(x[0]), gelu(x[0], false), silu(x[0]), softplus(x[0])};
       }},
      {"softmax",
       {f32({7, 6})},
       [](Args x) {
         return Results{softmax(x[0]), softmax(x[0], 0), log_softmax(x[0])};
       }},
      {"norm_layers",
       {f32({7, 6}), f32({6}), f32({6})},
       [](Args x) {
         return Results{layer_norm(x[0]), layer_norm(x[0], x[1], x[2]), rms_norm(x[0], x[1])};
       }},
      {"attention",
       {f32({2, 4, 5, 6}), f32({2, 2, 7, 6}), f32({2, 2, 7, 3}), b1({5, 7})},
       [](Args x) {
         const Tensor mask = x[3] || (iota({5, 7}, 1) == 0);
         return Results{attention(x[0], x[1], x[2]), attention(x[0], x[1], x[2], {.causal = true}),
                        attention(x[0], x[1], x[2], {.mask = mask})};
       }},
      {"cross_entropy",
       {f32({7, 10}), i32({7})},
       [](Args x) {
         return Results{cross_entropies(x[0], x[1]), cross_entropy(x[0], x[1])};
       }},
      {"conv",
       {f32({2, 9, 7, 4}), f32({3, 2, 2, 6})},
       [](Args x) {
         WindowOptions options{.strides = {2, 1}, .groups = 2};
         options.padding = {1, 1, 0, 0};
         return Results{conv(x[0], x[1], options)};
       }},
      {"conv_first",
       {f32({2, 4, 9}), f32({6, 4, 3})},
       [](Args x) {
         const WindowOptions options{.dilation = {2}, .layout = ImageLayout::ChannelsFirst};
         return Results{conv(x[0], x[1], options)};
       }},
      {"pooling",
       {f32({2, 9, 8, 3})},
       [](Args x) {
         WindowOptions options{.strides = {2, 2}};
         options.padding = {1, 1, 0, 0};
         return Results{max_pool(x[0], {3, 2}, options), avg_pool(x[0], {3, 2}, options)};
       }},
  };
}

}  // namespace cleave
