// verify: [1000000000:1000000009:1] does not fit dimension 0
func.func @main(%a: tensor<4xf32>) -> tensor<9xf32> {
  %0 = stablehlo.slice %a [1000000000:1000000009] : (tensor<4xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
