// seed 7001235
func.func @main(%arg0: tensor<4xui8>) -> (tensor<0xui8>) {
  %0 = stablehlo.slice %arg0 [4:4] : (tensor<4xui8>) -> tensor<0xui8>
  return %0 : tensor<0xui8>
}
