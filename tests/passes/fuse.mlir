// RUN: cleave opt %s -cleave-fuse | FileCheck %s
// A softmax over rows is one pass; a matrix product is not part of it.

// CHECK-LABEL: func.func @softmax
// CHECK:         stablehlo.dot_general
// CHECK-NEXT:    %[[Y:.*]] = "cleave.fusion"
// CHECK:           stablehlo.reduce{{.*}}stablehlo.maximum
// CHECK:           stablehlo.exponential
// CHECK:           stablehlo.reduce{{.*}}stablehlo.add
// CHECK:           stablehlo.divide
// CHECK:         return %[[Y]]
func.func @softmax(%a: tensor<16x8xf32>, %b: tensor<8x32xf32>) -> tensor<16x32xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %x = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<16x32xf32>, tensor<f32>) -> tensor<16xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<16xf32>) -> tensor<16x32xf32>
  %d = stablehlo.subtract %x, %mb : tensor<16x32xf32>
  %e = stablehlo.exponential %d : tensor<16x32xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16x32xf32>, tensor<f32>) -> tensor<16xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<16xf32>) -> tensor<16x32xf32>
  %y = stablehlo.divide %e, %sb : tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// What depends on the whole of a member cannot be computed in the same pass.
// CHECK-LABEL: func.func @through_a_product
// CHECK:         "cleave.fusion"
// CHECK:         stablehlo.dot_general
// CHECK:         "cleave.fusion"
func.func @through_a_product(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %e = stablehlo.exponential %x : tensor<8x8xf32>
  %p = stablehlo.dot_general %e, %e, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = stablehlo.add %e, %p : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
