// 3:42: the blob of 'b' has 4 bytes, tensor<2xf32> takes 8
func.func @f() -> tensor<2xf32> {
  %0 = stablehlo.constant dense_resource<b> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
{-# dialect_resources: { builtin: { b: "0x040000000000803F" } } #-}
