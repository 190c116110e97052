// verify: result_accuracy has tolerances, and the mode HIGHEST
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.cbrt"(%x) <{result_accuracy = #stablehlo.result_accuracy<atol = 1.0, ulps = 4, mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
