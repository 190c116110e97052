// verify: the name "foo" is not one such as "my_namespace.my_op"
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.composite "foo" %x {decomposition = @f} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
