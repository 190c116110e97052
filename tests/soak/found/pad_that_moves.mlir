// seed 1
func.func @main(%a: tensor<5x4xf16>, %p: tensor<f16>) -> tensor<5x7xf16> {
  %0 = stablehlo.pad %a, %p, low = [-1, 0], high = [1, 0], interior = [0, 1] : (tensor<5x4xf16>, tensor<f16>) -> tensor<5x7xf16>
  return %0 : tensor<5x7xf16>
}
