// RUN: cleave opt %s -sdy-populate-op-sharding-rules | FileCheck %s
// The rule of a composite follows from its body.

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func private @softmax.impl(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %m = stablehlo.reduce(%x init: %n) applies stablehlo.maximum across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  %d = stablehlo.subtract %x, %mb : tensor<8x4xf32>
  %e = stablehlo.exponential %d : tensor<8x4xf32>
  %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  %r = stablehlo.divide %e, %sb : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}
func.func private @rows.impl(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.multiply %x, %y : tensor<8x4xf32>
  %s = stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}
func.func private @norm.impl(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.multiply %x, %x : tensor<8x4xf32>
  %s = stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %q = stablehlo.sqrt %s : tensor<8xf32>
  return %q : tensor<8xf32>
}
func.func private @heads.impl(%x: tensor<8x24xf32>) -> tensor<4x8x6xf32> {
  %a = stablehlo.reshape %x : (tensor<8x24xf32>) -> tensor<8x4x6xf32>
  %b = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<8x4x6xf32>) -> tensor<4x8x6xf32>
  return %b : tensor<4x8x6xf32>
}
// CHECK-LABEL: func.func @main
func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %w: tensor<8x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4x8x6xf32>) {
  // Reduced inside and there again in the result: it can not stay cut.
  // CHECK: "lib.softmax"{{.*}}([i, j])->([i, j]) {i=8, j=4} need_replication={j}>
  %0 = stablehlo.composite "lib.softmax" %arg0 {decomposition = @softmax.impl} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: "lib.rows"{{.*}}([i, j], [i, j])->([i]) {i=8, j=4} reduction={j}>
  %1 = stablehlo.composite "lib.rows" %arg0, %0 {decomposition = @rows.impl} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8xf32>
  // The root does not carry a pending sum.
  // CHECK: "lib.norm"{{.*}}([i, j])->([i]) {i=8, j=4} need_replication={j}>
  %2 = stablehlo.composite "lib.norm" %arg0 {decomposition = @norm.impl} : (tensor<8x4xf32>) -> tensor<8xf32>
  // CHECK: "lib.heads"{{.*}}([i, jk])->([j, i, k]) {i=8, j=4, k=6}>
  %3 = stablehlo.composite "lib.heads" %w {decomposition = @heads.impl} : (tensor<8x24xf32>) -> tensor<4x8x6xf32>
  return %0, %1, %2, %3 : tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4x8x6xf32>
}

// Where the windows of a dynamic_conv lie is not known; examples and features are as in a convolution.
// CHECK-LABEL: func.func @dynamic_conv
func.func @dynamic_conv(%x: tensor<4x9x3xf32>, %k: tensor<2x3x5xf32>, %p: tensor<1x2xi64>) -> tensor<4x8x5xf32> {
  // CHECK: ([i, j, k], [m, k, l], [n, o])->([i, j, l]) {i=4, j=8, k=3, l=5, m=1, n=1, o=1} reduction={k} permutation={j}>
  %0 = "stablehlo.dynamic_conv"(%x, %k, %p) {batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64} : (tensor<4x9x3xf32>, tensor<2x3x5xf32>, tensor<1x2xi64>) -> tensor<4x8x5xf32>
  return %0 : tensor<4x8x5xf32>
}
