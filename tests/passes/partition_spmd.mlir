// RUN: cleave opt %s -cleave-partition | FileCheck %s
// RUN: cleave opt %s -cleave-partition="form=manual" | FileCheck %s --check-prefix=MANUAL
// One program for all devices: arrays as large as the largest shard, tables for what differs, StableHLO's collectives.
// Seven rows over x=2 are four on each device; the sum over them takes 0 for the row that is none.

sdy.mesh @mesh = <["x"=2, "y"=2]>

// CHECK: module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}
// CHECK: func.func @main(%arg0: tensor<4x8xf32> {mhlo.sharding = "{manual}"}) -> (tensor<8xf32> {mhlo.sharding = "{manual}"}, tensor<7x8xf32> {mhlo.sharding = "{manual}"})
// CHECK-NOT: stablehlo.case
// MANUAL: sdy.mesh @mesh = <["x"=2, "y"=2]>
// MANUAL: func.func @main(%arg0: tensor<7x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
// MANUAL: stablehlo.pad %arg0, {{.*}}, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<7x8xf32>, tensor<f32>) -> tensor<8x8xf32>
// MANUAL: sdy.manual_computation({{.*}}) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}]>, <@mesh, [{}, {}]>] manual_axes={"x", "y"}
func.func @main(%a: tensor<7x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8xf32>, tensor<7x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  // CHECK: %[[ID:.*]] = stablehlo.partition_id : tensor<ui32>
  // CHECK: %[[PLACE:.*]] = stablehlo.convert %[[ID]] : (tensor<ui32>) -> tensor<i32>
  // CHECK: %[[TABLE:.*]] = stablehlo.constant dense<[0, 0, 4, 4]> : tensor<4xi64>
  // CHECK: stablehlo.dynamic_slice %[[TABLE]], %[[PLACE]], sizes = [1]
  %i = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<7x8xf32>
  // CHECK: stablehlo.add {{.*}} : tensor<4x8xf32>
  %0 = stablehlo.add %a, %i {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<7x8xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.constant dense<[4, 4, 3, 3]> : tensor<4xi32>
  // CHECK: stablehlo.select {{.*}} : tensor<4x8xi1>, tensor<4x8xf32>
  // CHECK: stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: "stablehlo.all_reduce"({{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{\[\[}}0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<7x8xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: "stablehlo.all_gather"({{.*}}) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: stablehlo.slice {{.*}} [0:7, 0:8] : (tensor<8x8xf32>) -> tensor<7x8xf32>
  return %1, %0 : tensor<8xf32>, tensor<7x8xf32>
}
