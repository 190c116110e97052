// verify: takes 1 operand(s), got 0
func.func @main() -> tensor<4xf32> {
  %0 = "stablehlo.if"() ({
    %c = stablehlo.constant dense<1.0> : tensor<4xf32>
    stablehlo.return %c : tensor<4xf32>
  }, {
    %c = stablehlo.constant dense<1.0> : tensor<4xf32>
    stablehlo.return %c : tensor<4xf32>
  }) : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
