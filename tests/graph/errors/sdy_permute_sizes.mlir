// verify: dimension 0 is in 2 parts before and in 4 after
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x4xf32> {
  %0 = sdy.collective_permute %x out_sharding=<@mesh, [{"y", "x"}, {}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
