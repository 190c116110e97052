// RUN: cleave opt %s -cleave-partition="device=5" | FileCheck %s
// The program of one device: local shapes, and changes of layout that say from where to where. Device 5 is
// x=1, y=1, and its part of the iota begins at 4.

sdy.mesh @mesh = <["x"=2, "y"=4]>

// CHECK: func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<2x16xf32>) -> tensor<4x16xf32>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %w: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  // CHECK: stablehlo.iota dim = 0
  // CHECK: stablehlo.constant dense<4> : tensor<4x16xi64>
  %i = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x16xf32>
  // CHECK: "cleave.all_gather"(%arg1) {axes = "y", for = "sdy.reshard", from = "[{y}, {}]", to = "[{}, {}]"}
  // CHECK-SAME: (tensor<2x16xf32>) -> tensor<8x16xf32>
  %g = sdy.reshard %w <@mesh, [{}, {}]> : tensor<8x16xf32>
  %d = stablehlo.dot %x, %g {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %r = stablehlo.add %d, %i {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
