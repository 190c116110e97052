// Layouts move: transposes, reshapes, slices, concatenations, reversals. Some shards are empty.
func.func @main(%x: tensor<6x4x5xi64>, %y: tensor<3xi64>) -> (tensor<20x6xi64>, tensor<5x8xi64>, tensor<9xi64>) {
  %0 = stablehlo.transpose %x, dims = [1, 2, 0] : (tensor<6x4x5xi64>) -> tensor<4x5x6xi64>
  %1 = stablehlo.reshape %0 : (tensor<4x5x6xi64>) -> tensor<20x6xi64>
  %2 = stablehlo.slice %x [1:3, 0:4, 0:5] : (tensor<6x4x5xi64>) -> tensor<2x4x5xi64>
  %3 = stablehlo.transpose %2, dims = [2, 0, 1] : (tensor<2x4x5xi64>) -> tensor<5x2x4xi64>
  %4 = stablehlo.reshape %3 : (tensor<5x2x4xi64>) -> tensor<5x8xi64>
  %5 = stablehlo.reverse %y, dims = [0] : tensor<3xi64>
  %6 = stablehlo.add %5, %y : tensor<3xi64>
  %7 = stablehlo.concatenate %6, %y, %5, dim = 0 : (tensor<3xi64>, tensor<3xi64>, tensor<3xi64>) -> tensor<9xi64>
  return %1, %4, %7 : tensor<20x6xi64>, tensor<5x8xi64>, tensor<9xi64>
}
