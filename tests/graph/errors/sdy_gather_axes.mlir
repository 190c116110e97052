// verify: dimension 0 of the result is sharded over {"x"}, and the axes make it {}
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x4xf32> {
  %0 = sdy.all_gather [{"x"}, {}] %x out_sharding=<@mesh, [{"x"}, {}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
