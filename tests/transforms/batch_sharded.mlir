// Layouts, and collectives inside manual computations.
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @constraint(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<4x6xf32>
  %1 = sdy.reshard %0 <@mesh, [{}, {"y"}]> : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
func.func @barrier(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.propagation_barrier %x allowed_direction=NONE : tensor<4x6xf32>
  %1 = sdy.data_flow_edge %0 sharding=<@mesh, [{"x"}, {?}]> : tensor<4x6xf32>
  %2 = sdy.func_data_flow_edge %1 : tensor<4x6xf32>
  sdy.sharding_group %2 group_id=0 : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}
func.func @collectives(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.all_slice [{"x"}, {}] %x out_sharding=<@mesh, [{"x"}, {}]> : tensor<4x6xf32>
  %1 = sdy.all_to_all [{"x"}: 0->1] %0 out_sharding=<@mesh, [{}, {"x"}]> : tensor<4x6xf32>
  %2 = sdy.collective_permute %1 out_sharding=<@mesh, [{}, {"y"}]> : tensor<4x6xf32>
  %3 = sdy.all_gather [{}, {"y"}] %2 out_sharding=<@mesh, [{}, {}]> : tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}
func.func @unreduced(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.replicated_to_unreduced {"x"} %x out_sharding=<@mesh, [{}, {}], unreduced={"x"}> : tensor<4x6xf32>
  %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{}, {}]> : tensor<4x6xf32>
  %2 = sdy.replicated_to_unreduced {"y"} %1 out_sharding=<@mesh, [{}, {}], unreduced={"y"}> : tensor<4x6xf32>
  %3 = sdy.reduce_scatter [{"y"}, {}] %2 out_sharding=<@mesh, [{"y"}, {}]> : tensor<4x6xf32>
  %4 = sdy.sharded_to_unreduced [{"y"}, {}] %3 out_sharding=<@mesh, [{}, {}], unreduced={"y"}> : tensor<4x6xf32>
  return %4 : tensor<4x6xf32>
}
func.func @named_computation(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.named_computation<"f">(%x, %y) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] (%a: tensor<4x6xf32>, %b: tensor<4x6xf32>) {
    %1 = stablehlo.subtract %a, %b : tensor<4x6xf32>
    sdy.return %1 : tensor<4x6xf32>
  } : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @all_reduce(%x: tensor<4x6xf32>, %y: tensor<6xf32>) -> tensor<2x6xf32> {
  %0 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf32>, %b: tensor<6xf32>) {
    %1 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %2 = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x6xf32>) -> tensor<2x6xf32>
    %3 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<6xf32>) -> tensor<2x6xf32>
    %4 = stablehlo.add %1, %3 : tensor<2x6xf32>
    sdy.return %4 : tensor<2x6xf32>
  } : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
func.func @all_gather(%x: tensor<4x6xf32>) -> tensor<4x12xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf32>) {
    %1 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<2x6xf32>) -> tensor<2x12xf32>
    sdy.return %1 : tensor<2x12xf32>
  } : (tensor<4x6xf32>) -> tensor<4x12xf32>
  return %0 : tensor<4x12xf32>
}
func.func @reduce_scatter(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf32>) {
    %1 = "stablehlo.reduce_scatter"(%a) <{scatter_dimension = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %2 = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x6xf32>) -> tensor<2x3xf32>
    sdy.return %1 : tensor<2x3xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @all_to_all(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}, {"x"}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf32>) {
    %1 = "stablehlo.all_to_all"(%a) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> : (tensor<2x6xf32>) -> tensor<4x3xf32>
    sdy.return %1 : tensor<4x3xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @collective_permute(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf32>) {
    %1 = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<[[0, 2], [1, 3], [2, 0], [3, 1]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<2x6xf32>) -> tensor<2x6xf32>
    sdy.return %1 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @collective_broadcast(%x: tensor<4x6xf32>) -> tensor<2x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf32>) {
    %1 = "stablehlo.collective_broadcast"(%a) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<2x6xf32>) -> tensor<2x6xf32>
    sdy.return %1 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
func.func @collective_reduce(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf32>) {
    %1 = "stablehlo.collective_reduce"(%a) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %2 = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x6xf32>) -> tensor<2x6xf32>
    sdy.return %1 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @free_axis(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%a: tensor<2x6xf32>) {
    %1 = stablehlo.sine %a : tensor<2x6xf32>
    sdy.return %1 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @cross_replica_sum(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf32>) {
    %1 = "stablehlo.cross-replica-sum"(%a) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2x6xf32>) -> tensor<2x6xf32>
    sdy.return %1 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
