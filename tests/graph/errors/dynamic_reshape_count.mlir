// verify: the elements of tensor<11xf32> don't fill the shape 2x5
func.func @main(%x: tensor<11xf32>, %s: tensor<2xi64>) -> tensor<2x5xf32> {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<11xf32>, tensor<2xi64>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
