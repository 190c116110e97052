// verify: the results of the function
func.func @f(%a: tensor<f32>) -> tensor<2xf32> {
  return %a : tensor<f32>
}
