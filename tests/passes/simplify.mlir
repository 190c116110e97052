// RUN: cleave opt %s -cleave-inline-calls -cleave-simplify | FileCheck %s
// What is exact goes; what would change a bit stays.

// CHECK-LABEL: func.func @identities
// CHECK-SAME:    (%arg0: tensor<4xf32>, %arg1: tensor<4xi32>)
// CHECK-NOT:     stablehlo.subtract
// CHECK-NOT:     stablehlo.convert
// CHECK:         %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK:         stablehlo.add %arg0, %[[ZERO]]
// CHECK:         stablehlo.multiply {{.*}} : tensor<4xf32>
// CHECK-NOT:     stablehlo.divide
// CHECK:         return {{.*}}, %arg1
func.func @identities(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %four = stablehlo.constant dense<4.0> : tensor<4xf32>
  %izero = stablehlo.constant dense<0> : tensor<4xi32>
  %a = stablehlo.subtract %x, %zero : tensor<4xf32>
  %b = stablehlo.multiply %a, %one : tensor<4xf32>
  %c = stablehlo.convert %b : tensor<4xf32>
  %d = stablehlo.add %c, %zero : tensor<4xf32>
  %e = stablehlo.divide %d, %four : tensor<4xf32>
  %j = stablehlo.add %i, %izero : tensor<4xi32>
  return %e, %j : tensor<4xf32>, tensor<4xi32>
}

// CHECK-LABEL: func.func @constants
// CHECK:         %[[C:.*]] = stablehlo.constant dense<7.000000e+00> : tensor<1000x1000xf32>
// CHECK:         return %[[C]]
func.func @constants() -> tensor<1000x1000xf32> {
  %a = stablehlo.constant dense<3.0> : tensor<f32>
  %b = stablehlo.constant dense<4.0> : tensor<f32>
  %c = stablehlo.add %a, %b : tensor<f32>
  %d = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<1000x1000xf32>
  return %d : tensor<1000x1000xf32>
}

// CHECK-LABEL: func.func @views
// CHECK-NOT:     stablehlo.transpose
// CHECK:         stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [1]
// CHECK-NEXT:    return
func.func @views(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) -> tensor<6x4xf32> {
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %r = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
  %s = stablehlo.reshape %r : (tensor<32xf32>) -> tensor<4x8xf32>
  %y = stablehlo.dot %s, %t : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %z = stablehlo.transpose %y, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  return %z : tensor<6x4xf32>
}

// The two reductions have the same body; one is enough. The third one differs inside.
// CHECK-LABEL: func.func @common
// CHECK-COUNT-1: applies stablehlo.add
// CHECK:         stablehlo.maximum
// CHECK:         return %[[S:.*]], %[[S]], %{{.*}}
func.func @common(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %other = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.reduce(%x init: %other) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %c = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// In the body of a loop too.
// CHECK-LABEL: func.func @loop
// CHECK:         stablehlo.while
// CHECK:         do {
// CHECK-NOT:     stablehlo.reshape
// CHECK:         stablehlo.add
// CHECK-NOT:     stablehlo.exponential
func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = stablehlo.constant dense<10> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %r = stablehlo.reshape %v : (tensor<4xf32>) -> tensor<2x2xf32>
    %s = stablehlo.reshape %r : (tensor<2x2xf32>) -> tensor<4xf32>
    %dead = stablehlo.exponential %s : tensor<4xf32>
    %w = stablehlo.add %s, %s : tensor<4xf32>
    stablehlo.return %next, %w : tensor<i32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @caller
// CHECK-NOT:     call
// CHECK:         stablehlo.tanh
// CHECK-NOT:     func.func private
func.func @caller(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @callee(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
