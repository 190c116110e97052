// verify: sdy.sharding must be a #sdy.sharding_per_value
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
