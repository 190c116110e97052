// verify: backend_config must be a dictionary with api_version 4
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.custom_call"(%x) <{api_version = 4 : i32, backend_config = "a = 1", call_target_name = "f"}> : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
