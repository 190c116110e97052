// verify: @f calls itself: @f -> @g -> @f; recursion is not supported
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = func.call @f(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @f(%a: tensor<f32>) -> tensor<f32> {
  %0 = func.call @g(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @g(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.composite "x.y" %a {decomposition = @f} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
