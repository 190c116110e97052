// RUN: cleave opt %s -sdy-populate-op-sharding-rules | FileCheck %s

// CHECK-LABEL: func.func @rules
func.func @rules(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>, %z: tensor<f32>) -> tensor<4xf32> {
  // CHECK: stablehlo.dot {{.*}}#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=4, j=5, k=6} reduction={k}>
  %0 = stablehlo.dot %a, %b : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  // CHECK: stablehlo.reshape {{.*}}#sdy.op_sharding_rule<([ij, k])->([i, j, k]) {i=2, j=2, k=5}>
  %1 = stablehlo.reshape %0 : (tensor<4x5xf32>) -> tensor<2x2x5xf32>
  %2 = stablehlo.reshape %1 : (tensor<2x2x5xf32>) -> tensor<4x5xf32>
  // CHECK: stablehlo.reduce
  // CHECK-SAME: #sdy.op_sharding_rule<([i, j], [])->([i]) {i=4, j=5} reduction={j}>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
