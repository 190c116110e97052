// RUN: cleave opt %s -sdy-propagation-pipeline --trace 2>&1 >/dev/null | FileCheck %s
// What propagation tells on standard error: every decision, and the conflict that it could not solve.

sdy.mesh @mesh = <["x"=2, "y"=2]>
sdy.mesh @single = <[], device_ids=[1]>

// CHECK: priority 0, stage
// CHECK: %0 none => [{"x", ?}]  through stablehlo.negate (%arg0) -> %0
// CHECK-NEXT: dimension 0 takes "x" from %arg0 dimension 0
// CHECK: warning: {{.*}}stablehlo.add
// CHECK-SAME: "x"
// CHECK-SAME: "y"
// CHECK: warning: {{.*}}stablehlo.abs {{.*}}on a single device
func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.negate %arg0 : tensor<8xf32>
  %1 = stablehlo.add %0, %arg1 : tensor<8xf32>
  %2 = stablehlo.abs %0 {sdy.sharding = #sdy.sharding_per_value<[<@single, []>]>} : tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}
