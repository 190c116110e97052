// RUN: cleave opt %s -sdy-user-priority-propagate | FileCheck %s
// Both arguments ask for the axis on different dimensions; the one with priority 0 wins.

sdy.mesh @mesh = <["x"=2]>

// CHECK-LABEL: func.func @conflict
func.func @conflict(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {?}]>},
                    %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x", ?}p0]>}) -> tensor<8x8xf32> {
  // CHECK: stablehlo.add {{.*}}<@mesh, [{?}, {"x", ?}]>
  %0 = stablehlo.add %a, %b : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
