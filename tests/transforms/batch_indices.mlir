// Positions and sizes as operands.
func.func @dynamic_slice(%x: tensor<6x5xf32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3] : (tensor<6x5xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func @dynamic_slice_whole(%x: tensor<4xf32>, %i: tensor<i64>) -> tensor<1xf32> {
  %0 = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<4xf32>, tensor<i64>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
func.func @dynamic_update_slice(%x: tensor<6x5xf32>, %u: tensor<2x3xf32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<6x5xf32> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<6x5xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<6x5xf32>
  return %0 : tensor<6x5xf32>
}
func.func @dynamic_update_slice_bytes(%x: tensor<300xi32>, %u: tensor<2xi32>, %i: tensor<ui8>) -> tensor<300xi32> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<300xi32>, tensor<2xi32>, tensor<ui8>) -> tensor<300xi32>
  return %0 : tensor<300xi32>
}
func.func @gather(%x: tensor<6x4xf32>, %i: tensor<5x1xi64>) -> tensor<5x4xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<6x4xf32>, tensor<5x1xi64>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
func.func @gather_implicit(%x: tensor<6x4xf32>, %i: tensor<5x2xi32>) -> tensor<5x3x2xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 3>}> : (tensor<6x4xf32>, tensor<5x2xi32>) -> tensor<5x3x2xf32>
  return %0 : tensor<5x3x2xf32>
}
func.func @gather_batching(%x: tensor<3x6x4xf32>, %i: tensor<5x3x2xi64>) -> tensor<5x3x2x1xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 1>}> : (tensor<3x6x4xf32>, tensor<5x3x2xi64>) -> tensor<5x3x2x1xf32>
  return %0 : tensor<5x3x2x1xf32>
}
func.func @dynamic_gather(%x: tensor<6x4xf32>, %i: tensor<5x1xi64>) -> tensor<5x4xf32> {
  %s = stablehlo.constant dense<[1, 4]> : tensor<2xi64>
  %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<6x4xf32>, tensor<5x1xi64>, tensor<2xi64>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
func.func @scatter(%x: tensor<6x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<6x4xi32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<6x4xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<6x4xi32>
  return %0 : tensor<6x4xi32>
}
func.func @scatter_batching(%x: tensor<3x6x4xf32>, %i: tensor<5x3x1xi64>, %u: tensor<5x3x4xf32>) -> tensor<3x6x4xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3x6x4xf32>, tensor<5x3x1xi64>, tensor<5x3x4xf32>) -> tensor<3x6x4xf32>
  return %0 : tensor<3x6x4xf32>
}
func.func @scatter_two(%x: tensor<6xi32>, %y: tensor<6xi32>, %i: tensor<4x1xi32>, %u: tensor<4xi32>, %v: tensor<4xi32>) -> (tensor<6xi32>, tensor<6xi32>) {
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %s = stablehlo.add %a, %c : tensor<i32>
    %t = stablehlo.maximum %b, %d : tensor<i32>
    stablehlo.return %s, %t : tensor<i32>, tensor<i32>
  }) : (tensor<6xi32>, tensor<6xi32>, tensor<4x1xi32>, tensor<4xi32>, tensor<4xi32>) -> (tensor<6xi32>, tensor<6xi32>)
  return %0#0, %0#1 : tensor<6xi32>, tensor<6xi32>
}
func.func @torch_index_select(%x: tensor<12x3x4xf32>, %i: tensor<2x2xi64>) -> tensor<2x2x3x4xf32> {
  %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<12x3x4xf32>, tensor<2x2xi64>) -> tensor<2x2x3x4xf32>
  return %0 : tensor<2x2x3x4xf32>
}
func.func @torch_index_select_batch(%x: tensor<2x3x12x4xf32>, %i: tensor<2x5xi64>) -> tensor<2x3x5x4xf32> {
  %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 2 : i64, batch_dims = 1 : i64}> : (tensor<2x3x12x4xf32>, tensor<2x5xi64>) -> tensor<2x3x5x4xf32>
  return %0 : tensor<2x3x5x4xf32>
}
func.func @get_dimension_size(%x: tensor<4x5xf32>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<4x5xf32>) -> tensor<i32>
  return %0 : tensor<i32>
}
func.func @set_dimension_size(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %s = stablehlo.constant dense<5> : tensor<i32>
  %0 = stablehlo.set_dimension_size %x, %s, dim = 1 : (tensor<4x5xf32>, tensor<i32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
func.func @dynamic_iota(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %s = stablehlo.constant dense<[4, 5]> : tensor<2xi64>
  %i = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<4x5xf32>
  %0 = stablehlo.add %x, %i : tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
func.func @dynamic_reshape(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %s = stablehlo.constant dense<[3, 8]> : tensor<2xi64>
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}
func.func @dynamic_broadcast_in_dim(%x: tensor<4x1xf32>) -> tensor<2x4x5xf32> {
  %s = stablehlo.constant dense<[2, 4, 5]> : tensor<3xi64>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : (tensor<4x1xf32>, tensor<3xi64>) -> tensor<2x4x5xf32>
  return %0 : tensor<2x4x5xf32>
}
func.func @dynamic_pad(%x: tensor<4xf32>, %v: tensor<f32> {test.common}) -> tensor<7xf32> {
  %l = stablehlo.constant dense<[1]> : tensor<1xi64>
  %h = stablehlo.constant dense<[2]> : tensor<1xi64>
  %i = stablehlo.constant dense<[0]> : tensor<1xi64>
  %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %i : (tensor<4xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
func.func @real_dynamic_slice(%x: tensor<7x3xf32>) -> tensor<3x3xf32> {
  %s = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %l = stablehlo.constant dense<[6, 3]> : tensor<2xi64>
  %t = stablehlo.constant dense<[2, 1]> : tensor<2xi64>
  %0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : (tensor<7x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
func.func @rng_bit_generator(%k: tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5xui32>) {
  %0, %1 = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5xui32>)
  return %0, %1 : tensor<2xui64>, tensor<3x5xui32>
}
