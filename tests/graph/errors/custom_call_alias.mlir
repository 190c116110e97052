// verify: an output_operand_alias of tensor<2x3xf32> with tensor<2xf32>
func.func @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.custom_call"(%x) <{call_target_name = "f", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}> : (tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
