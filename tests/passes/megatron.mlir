// RUN: cleave opt %s -sdy-propagation-pipeline | FileCheck %s
// One annotation on the first matrix splits the second by rows; the contraction leaves an all-reduce.

sdy.mesh @mesh = <["data"=2, "model"=4]>

// CHECK-LABEL: func.func @mlp
// CHECK-SAME:    %arg2: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}
// CHECK-SAME:    -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
func.func @mlp(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
               %w: tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
               %v: tensor<32x8xf32>) -> tensor<16x8xf32> {
  // CHECK: stablehlo.dot {{.*}}#sdy.sharding_per_value<[<@mesh, [{"data"}, {"model"}]>]>
  %0 = stablehlo.dot %x, %w : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  // CHECK: stablehlo.tanh {{.*}}<@mesh, [{"data"}, {"model"}]>
  %1 = stablehlo.tanh %0 : tensor<16x32xf32>
  // CHECK: stablehlo.dot {{.*}}<@mesh, [{"data"}, {}]>
  %2 = stablehlo.dot %1, %v : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}
