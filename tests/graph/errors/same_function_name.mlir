// verify: two functions are called @f
func.func @f(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}
func.func @f(%a: tensor<i32>) -> tensor<i32> {
  return %a : tensor<i32>
}
