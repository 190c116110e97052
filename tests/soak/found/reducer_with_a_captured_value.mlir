// seed 2
func.func @main(%arg0: tensor<5x4xi16>, %arg2: tensor<5x8x4xi16>, %arg4: tensor<4xi16>) -> (tensor<5x8x4xi16>) {
  %2 = stablehlo.constant dense<0> : tensor<i16>
  %3 = "stablehlo.reduce_window"(%arg2, %2) <{window_dimensions = array<i64: 1, 1, 4>, window_strides = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [0, 3]]> : tensor<3x2xi64>}> ({
  ^bb0(%a: tensor<i16>, %b: tensor<i16>):
    %0 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [1] x [0] : (tensor<5x4xi16>, tensor<4xi16>) -> tensor<5xi16>
    %s = stablehlo.add %a, %b : tensor<i16>
    stablehlo.return %s : tensor<i16>
  }) : (tensor<5x8x4xi16>, tensor<i16>) -> tensor<5x8x4xi16>
  return %3 : tensor<5x8x4xi16>
}
