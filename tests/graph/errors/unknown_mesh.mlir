// 2:62: unknown mesh @m
func.func @f(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@m, [{}]>}) {
  return
}
