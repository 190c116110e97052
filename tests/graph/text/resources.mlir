module {
  func.func @main() -> (tensor<2xf32>, tensor<3xi64>) {
    %cst = stablehlo.constant dense_resource<weights> : tensor<2xf32>
    %c = stablehlo.constant dense_resource<"with space"> : tensor<3xi64>
    return %cst, %c : tensor<2xf32>, tensor<3xi64>
  }
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x400000000000803F00000040",
      "with space": "0x08000000010000000000000002000000000000000300000000000000"
    }
  }
#-}
