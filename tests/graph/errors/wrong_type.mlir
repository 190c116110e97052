// 3:29: operand 0 is of type tensor<f32>, not tensor<2xf32>
func.func @f(%a: tensor<f32>) {
  %0 = stablehlo.negate %a: tensor<2xf32>
  return
}
