// verify: the layout [0, 2] of operand 0 is no permutation of the dimensions of tensor<2x3xf32>
func.func @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.custom_call"(%x) <{call_target_name = "f", operand_layouts = [dense<[0, 2]> : tensor<2xindex>], result_layouts = [dense<0> : tensor<1xindex>]}> : (tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
