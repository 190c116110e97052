// verify: has 1 dimensions
sdy.mesh @m = <["x"=2]>
func.func @f(%a: tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@m, [{}]>}) {
  return
}
