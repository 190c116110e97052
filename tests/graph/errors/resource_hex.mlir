// 6:39: a character that is no hex digit in a hex string
func.func @f() -> tensor<1xf32> {
  %0 = stablehlo.constant dense_resource<b> : tensor<1xf32>
  return %0 : tensor<1xf32>
}
{-# dialect_resources: { builtin: {b: "0x040000000000803G" } } #-}
