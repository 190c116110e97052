// verify: the operand's parts are to be combined by max, not by sum
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced=max{"x"}>}) -> tensor<4x4xf32> {
  %0 = sdy.all_reduce {"x"} %x out_sharding=<@mesh, [{}, {}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
