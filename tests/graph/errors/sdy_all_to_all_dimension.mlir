// verify: dimension 2 must lie in [0, 2)
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x4xf32> {
  %0 = sdy.all_to_all [{"x"}: 0->2] %x out_sharding=<@mesh, [{}, {"x"}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
