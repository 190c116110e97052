// Ops whose local forms depend on where a shard lies, on tensors so small that most devices of a mesh hold nothing.

func.func @broadcast(%a: tensor<3xf32>) -> tensor<2x4x3xf32> {
  %0 = stablehlo.broadcast %a, sizes = [2, 4] : (tensor<3xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}
func.func @broadcast_in_dim(%a: tensor<1x3xf32>) -> tensor<2x3x4xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
func.func @slice(%a: tensor<5x3xf32>) -> (tensor<2x3xf32>, tensor<0x3xf32>, tensor<2x1xf32>) {
  %0 = stablehlo.slice %a [3:5, 0:3] : (tensor<5x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.slice %a [2:2, 0:3] : (tensor<5x3xf32>) -> tensor<0x3xf32>
  %2 = stablehlo.slice %a [1:5:3, 2:3] : (tensor<5x3xf32>) -> tensor<2x1xf32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<0x3xf32>, tensor<2x1xf32>
}
func.func @narrow_slice(%a: tensor<5xf32>) -> tensor<2xf32> {
  %0 = stablehlo.convert %a : (tensor<5xf32>) -> tensor<5xf8E5M2>
  %1 = stablehlo.slice %0 [3:5] : (tensor<5xf8E5M2>) -> tensor<2xf8E5M2>
  %2 = stablehlo.convert %1 : (tensor<2xf8E5M2>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
func.func @gather(%a: tensor<3x2xf32>, %i: tensor<4x1xi32>) -> tensor<4x2xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> : (tensor<3x2xf32>, tensor<4x1xi32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
func.func @gather_windows(%a: tensor<3x2xf32>, %i: tensor<2x2xi32>) -> tensor<2x2x1xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 1>}> : (tensor<3x2xf32>, tensor<2x2xi32>) -> tensor<2x2x1xf32>
  return %0 : tensor<2x2x1xf32>
}
func.func @gather_of_nothing(%a: tensor<3x2xf32>, %i: tensor<0x1xi32>) -> tensor<0x2xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> : (tensor<3x2xf32>, tensor<0x1xi32>) -> tensor<0x2xf32>
  return %0 : tensor<0x2xf32>
}
func.func @gather_unindexed(%a: tensor<3x2x4xf32>, %i: tensor<2x1xi32>) -> tensor<2x2x3xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2, 3>}> : (tensor<3x2x4xf32>, tensor<2x1xi32>) -> tensor<2x2x3xf32>
  return %0 : tensor<2x2x3xf32>
}
func.func @gather_batched(%a: tensor<3x2x2xf32>, %i: tensor<3x4x1xi32>) -> tensor<3x4x2xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}> : (tensor<3x2x2xf32>, tensor<3x4x1xi32>) -> tensor<3x4x2xf32>
  return %0 : tensor<3x4x2xf32>
}
func.func @scatter(%a: tensor<3x2xf32>, %i: tensor<2x1xi32>, %u: tensor<2x2xf32>) -> tensor<3x2xf32> {
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<3x2xf32>, tensor<2x1xi32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
func.func @scatter_windows(%a: tensor<3x4xf32>, %i: tensor<1xi32>, %u: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0]>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<3x4xf32>, tensor<1xi32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func @windows(%a: tensor<5x2xf32>) -> (tensor<3x2xf32>, tensor<2x1xf32>, tensor<7x2xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 3, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %1 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 3, 1>, window_dilations = array<i64: 1, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5x2xf32>, tensor<f32>) -> tensor<2x1xf32>
  %2 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 1, 1>, padding = dense<[[2, 0], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5x2xf32>, tensor<f32>) -> tensor<7x2xf32>
  return %0, %1, %2 : tensor<3x2xf32>, tensor<2x1xf32>, tensor<7x2xf32>
}
func.func @dilated_windows(%a: tensor<4xf32>) -> (tensor<3xf32>, tensor<0xf32>, tensor<9xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 2>, base_dilations = array<i64: 2>, window_dilations = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 6>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<0xf32>
  %2 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 2>, base_dilations = array<i64: 3>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<0xf32>, tensor<9xf32>
}
func.func @running_sum(%a: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 3, 1>, padding = dense<[[2, 0], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
func.func @convolution(%x: tensor<2x3x4x2xf32>, %k: tensor<3x3x2x3xf32>) -> tensor<2x3x4x3xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x4x2xf32>, tensor<3x3x2x3xf32>) -> tensor<2x3x4x3xf32>
  return %0 : tensor<2x3x4x3xf32>
}
func.func @strided_convolution(%x: tensor<2x5x2xf32>, %k: tensor<2x2x3xf32>) -> tensor<2x2x3xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [3]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x5x2xf32>, tensor<2x2x3xf32>) -> tensor<2x2x3xf32>
  return %0 : tensor<2x2x3xf32>
}
func.func @grouped_convolution(%x: tensor<2x5x4xf32>, %k: tensor<2x2x6xf32>) -> tensor<2x8x6xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x5x4xf32>, tensor<2x2x6xf32>) -> tensor<2x8x6xf32>
  return %0 : tensor<2x8x6xf32>
}
func.func @wide_kernel(%x: tensor<1x3x2xf32>, %k: tensor<5x2x2xf32>) -> tensor<1x0x2xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x2xf32>, tensor<5x2x2xf32>) -> tensor<1x0x2xf32>
  return %0 : tensor<1x0x2xf32>
}
func.func @pad(%a: tensor<3x2xf32>, %v: tensor<f32>) -> (tensor<8x2xf32>, tensor<1x2xf32>) {
  %0 = stablehlo.pad %a, %v, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  %1 = stablehlo.pad %a, %v, low = [-1, 0], high = [-1, 0], interior = [0, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<1x2xf32>
  return %0, %1 : tensor<8x2xf32>, tensor<1x2xf32>
}
func.func @dynamic(%a: tensor<5x2xf32>, %u: tensor<2x1xf32>, %i: tensor<i32>) -> (tensor<2x2xf32>, tensor<5x2xf32>) {
  %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [2, 2] : (tensor<5x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
  %1 = stablehlo.dynamic_update_slice %a, %u, %i, %i : (tensor<5x2xf32>, tensor<2x1xf32>, tensor<i32>, tensor<i32>) -> tensor<5x2xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<5x2xf32>
}
func.func @joined(%a: tensor<1x2xf32>, %b: tensor<3x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<8xf32>) {
  %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x2xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<4x2xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x2xf32>) -> tensor<8xf32>
  return %0, %1, %2 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<8xf32>
}
func.func @sorted(%a: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
func.func @pooled_back(%a: tensor<4x2xf32>, %s: tensor<2x2xf32>) -> tensor<4x2xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %s, %c) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x2xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
