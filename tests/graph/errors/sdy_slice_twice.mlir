// verify: axis "x" appears twice
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = sdy.all_slice [{"x"}, {"x"}] %x out_sharding=<@mesh, [{"x"}, {}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
