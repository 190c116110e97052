// verify: the result is partial along {"y"}, and the axes make it {"x"}
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x4xf32> {
  %0 = sdy.sharded_to_unreduced [{"x"}, {}] %x out_sharding=<@mesh, [{}, {}], unreduced={"y"}> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
