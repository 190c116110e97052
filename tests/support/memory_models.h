#pragma once

#include <map>
#include <string>

// Five small models whose memory differs in kind: what lives long, what is a view, what a kernel
// takes for itself, what loops carry.
namespace cleave::plan {

// Two layers, squared error, momentum.
inline constexpr const char* kMlpModel = R"(
    func.func @main(%w1: tensor<32x96xf32>, %w2: tensor<96x12xf32>,
                    %m1: tensor<32x96xf32>, %m2: tensor<96x12xf32>,
                    %x: tensor<48x32xf32>, %y: tensor<48x12xf32>)
        -> (tensor<32x96xf32>, tensor<96x12xf32>, tensor<32x96xf32>, tensor<96x12xf32>) {
      %beta = stablehlo.constant dense<0.9> : tensor<f32>
      %rate = stablehlo.constant dense<0.01> : tensor<f32>
      %h = stablehlo.dot %x, %w1 : (tensor<48x32xf32>, tensor<32x96xf32>) -> tensor<48x96xf32>
      %a = stablehlo.tanh %h : tensor<48x96xf32>
      %p = stablehlo.dot %a, %w2 : (tensor<48x96xf32>, tensor<96x12xf32>) -> tensor<48x12xf32>
      %d = stablehlo.subtract %p, %y : tensor<48x12xf32>
      %g2 = stablehlo.dot_general %a, %d, contracting_dims = [0] x [0] : (tensor<48x96xf32>, tensor<48x12xf32>) -> tensor<96x12xf32>
      %da = stablehlo.dot_general %d, %w2, contracting_dims = [1] x [1] : (tensor<48x12xf32>, tensor<96x12xf32>) -> tensor<48x96xf32>
      %aa = stablehlo.multiply %a, %a : tensor<48x96xf32>
      %t = stablehlo.multiply %da, %aa : tensor<48x96xf32>
      %dh = stablehlo.subtract %da, %t : tensor<48x96xf32>
      %g1 = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<48x32xf32>, tensor<48x96xf32>) -> tensor<32x96xf32>
      %b1 = stablehlo.broadcast_in_dim %beta, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
      %b2 = stablehlo.broadcast_in_dim %beta, dims = [] : (tensor<f32>) -> tensor<96x12xf32>
      %r1 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
      %r2 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<96x12xf32>
      %s1 = stablehlo.multiply %m1, %b1 : tensor<32x96xf32>
      %s2 = stablehlo.multiply %m2, %b2 : tensor<96x12xf32>
      %n1 = stablehlo.add %s1, %g1 : tensor<32x96xf32>
      %n2 = stablehlo.add %s2, %g2 : tensor<96x12xf32>
      %u1 = stablehlo.multiply %n1, %r1 : tensor<32x96xf32>
      %u2 = stablehlo.multiply %n2, %r2 : tensor<96x12xf32>
      %v1 = stablehlo.subtract %w1, %u1 : tensor<32x96xf32>
      %v2 = stablehlo.subtract %w2, %u2 : tensor<96x12xf32>
      return %v1, %v2, %n1, %n2 : tensor<32x96xf32>, tensor<96x12xf32>, tensor<32x96xf32>, tensor<96x12xf32>
    })";

// Attention with heads split out of a projection and merged again, softmax, residual.
inline constexpr const char* kAttentionModel = R"(
    func.func @main(%x: tensor<4x16x32xf32>, %q: tensor<32x32xf32>, %k: tensor<32x32xf32>,
                    %v: tensor<32x32xf32>, %o: tensor<32x32xf32>) -> tensor<4x16x32xf32> {
      %low = stablehlo.constant dense<-1.0e30> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.dot_general %x, %q, contracting_dims = [2] x [0] : (tensor<4x16x32xf32>, tensor<32x32xf32>) -> tensor<4x16x32xf32>
      %1 = stablehlo.dot_general %x, %k, contracting_dims = [2] x [0] : (tensor<4x16x32xf32>, tensor<32x32xf32>) -> tensor<4x16x32xf32>
      %2 = stablehlo.dot_general %x, %v, contracting_dims = [2] x [0] : (tensor<4x16x32xf32>, tensor<32x32xf32>) -> tensor<4x16x32xf32>
      %qh = stablehlo.reshape %0 : (tensor<4x16x32xf32>) -> tensor<4x16x4x8xf32>
      %kh = stablehlo.reshape %1 : (tensor<4x16x32xf32>) -> tensor<4x16x4x8xf32>
      %vh = stablehlo.reshape %2 : (tensor<4x16x32xf32>) -> tensor<4x16x4x8xf32>
      %s = stablehlo.dot_general %qh, %kh, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<4x16x4x8xf32>, tensor<4x16x4x8xf32>) -> tensor<4x4x16x16xf32>
      %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<4x4x16x16xf32>, tensor<f32>) -> tensor<4x4x16xf32>
      %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1, 2] : (tensor<4x4x16xf32>) -> tensor<4x4x16x16xf32>
      %c = stablehlo.subtract %s, %mb : tensor<4x4x16x16xf32>
      %e = stablehlo.exponential %c : tensor<4x4x16x16xf32>
      %d = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<4x4x16x16xf32>, tensor<f32>) -> tensor<4x4x16xf32>
      %db = stablehlo.broadcast_in_dim %d, dims = [0, 1, 2] : (tensor<4x4x16xf32>) -> tensor<4x4x16x16xf32>
      %w = stablehlo.divide %e, %db : tensor<4x4x16x16xf32>
      %a = stablehlo.dot_general %w, %vh, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<4x4x16x16xf32>, tensor<4x16x4x8xf32>) -> tensor<4x4x16x8xf32>
      %at = stablehlo.transpose %a, dims = [0, 2, 1, 3] : (tensor<4x4x16x8xf32>) -> tensor<4x16x4x8xf32>
      %am = stablehlo.reshape %at : (tensor<4x16x4x8xf32>) -> tensor<4x16x32xf32>
      %p = stablehlo.dot_general %am, %o, contracting_dims = [2] x [0] : (tensor<4x16x32xf32>, tensor<32x32xf32>) -> tensor<4x16x32xf32>
      %r = stablehlo.add %x, %p : tensor<4x16x32xf32>
      return %r : tensor<4x16x32xf32>
    })";

// Two convolutions, one with a stride, and the mean over the picture.
inline constexpr const char* kConvNetModel = R"(
    func.func @main(%x: tensor<6x16x16x4xf32>, %k1: tensor<3x3x4x16xf32>, %k2: tensor<3x3x16x32xf32>,
                    %h: tensor<32x10xf32>) -> tensor<6x10xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %z1 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<6x16x16x16xf32>
      %0 = stablehlo.convolution(%x, %k1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<6x16x16x4xf32>, tensor<3x3x4x16xf32>) -> tensor<6x16x16x16xf32>
      %1 = stablehlo.maximum %0, %z1 : tensor<6x16x16x16xf32>
      %2 = stablehlo.convolution(%1, %k2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<6x16x16x16xf32>, tensor<3x3x16x32xf32>) -> tensor<6x8x8x32xf32>
      %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1, 2] : (tensor<6x8x8x32xf32>, tensor<f32>) -> tensor<6x32xf32>
      %4 = stablehlo.dot %3, %h : (tensor<6x32xf32>, tensor<32x10xf32>) -> tensor<6x10xf32>
      return %4 : tensor<6x10xf32>
    })";

// Tokens to experts and back by masks.
inline constexpr const char* kExpertsModel = R"(
    func.func @main(%x: tensor<48x16xf32>, %r: tensor<16x6xf32>, %up: tensor<6x16x24xf32>,
                    %down: tensor<6x24x16xf32>) -> tensor<48x16xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %g = stablehlo.dot %x, %r : (tensor<48x16xf32>, tensor<16x6xf32>) -> tensor<48x6xf32>
      %e = stablehlo.exponential %g : tensor<48x6xf32>
      %d = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<48x6xf32>, tensor<f32>) -> tensor<48xf32>
      %db = stablehlo.broadcast_in_dim %d, dims = [0] : (tensor<48xf32>) -> tensor<48x6xf32>
      %w = stablehlo.divide %e, %db : tensor<48x6xf32>
      %wb = stablehlo.broadcast_in_dim %w, dims = [1, 0] : (tensor<48x6xf32>) -> tensor<6x48x16xf32>
      %xb = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<48x16xf32>) -> tensor<6x48x16xf32>
      %t = stablehlo.multiply %wb, %xb : tensor<6x48x16xf32>
      %h = stablehlo.dot_general %t, %up, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<6x48x16xf32>, tensor<6x16x24xf32>) -> tensor<6x48x24xf32>
      %a = stablehlo.logistic %h : tensor<6x48x24xf32>
      %o = stablehlo.dot_general %a, %down, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<6x48x24xf32>, tensor<6x24x16xf32>) -> tensor<6x48x16xf32>
      %y = stablehlo.reduce(%o init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<6x48x16xf32>, tensor<f32>) -> tensor<48x16xf32>
      return %y : tensor<48x16xf32>
    })";

// A scan over stacked layers that also stacks what each layer gives.
inline constexpr const char* kScanModel = R"(
    func.func @main(%x: tensor<24x32xf32>, %w: tensor<5x32x32xf32>) -> (tensor<24x32xf32>, tensor<5x24x32xf32>) {
      %c0 = stablehlo.constant dense<0> : tensor<i32>
      %f0 = stablehlo.constant dense<0.0> : tensor<f32>
      %stack = stablehlo.broadcast_in_dim %f0, dims = [] : (tensor<f32>) -> tensor<5x24x32xf32>
      %0:3 = stablehlo.while(%i = %c0, %a = %x, %s = %stack) : tensor<i32>, tensor<24x32xf32>, tensor<5x24x32xf32>
        cond {
          %n = stablehlo.constant dense<5> : tensor<i32>
          %l = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %l : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %z = stablehlo.constant dense<0> : tensor<i32>
          %wi = stablehlo.dynamic_slice %w, %i, %z, %z, sizes = [1, 32, 32] : (tensor<5x32x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x32xf32>
          %wr = stablehlo.reshape %wi : (tensor<1x32x32xf32>) -> tensor<32x32xf32>
          %h = stablehlo.dot %a, %wr : (tensor<24x32xf32>, tensor<32x32xf32>) -> tensor<24x32xf32>
          %t = stablehlo.tanh %h : tensor<24x32xf32>
          %tr = stablehlo.reshape %t : (tensor<24x32xf32>) -> tensor<1x24x32xf32>
          %u = stablehlo.dynamic_update_slice %s, %tr, %i, %z, %z : (tensor<5x24x32xf32>, tensor<1x24x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x24x32xf32>
          %j = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %j, %t, %u : tensor<i32>, tensor<24x32xf32>, tensor<5x24x32xf32>
        }
      return %0#1, %0#2 : tensor<24x32xf32>, tensor<5x24x32xf32>
    })";

inline std::map<std::string, std::string> memory_models() {
  return {{"mlp", kMlpModel},
          {"attention", kAttentionModel},
          {"conv net", kConvNetModel},
          {"experts", kExpertsModel},
          {"scan", kScanModel}};
}

}  // namespace cleave::plan
