// seed 2000209
func.func @main(%arg2: tensor<0x4x2xi64>) -> (tensor<0x4x2xi64>) {
  %0 = stablehlo.reverse %arg2, dims = [0, 1, 2] : tensor<0x4x2xi64>
  return %0 : tensor<0x4x2xi64>
}
