// verify: changes the operator of parts along axis "x" from max to sum
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced=max{"x"}>}) -> tensor<4x4xf32> {
  %0 = sdy.sharding_constraint %x <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
