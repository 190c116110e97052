// verify: [0:9:1] does not fit dimension 0 of tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<?xf32> {
  %a = stablehlo.constant dense<0> : tensor<1xi32>
  %b = stablehlo.constant dense<9> : tensor<1xi32>
  %c = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.real_dynamic_slice %x, %a, %b, %c : (tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
