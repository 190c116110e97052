// verify: but inferred as tensor<4x2xf32>
func.func @f(%a: tensor<2x4xf32>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}
