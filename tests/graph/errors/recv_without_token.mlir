// verify: the last result must be a token, got tensor<i32>
func.func @main(%t: !stablehlo.token) -> tensor<3xi32> {
  %0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>}> : (!stablehlo.token) -> (tensor<3xi32>, tensor<i32>)
  return %0#0 : tensor<3xi32>
}
