// 3:42: a list of 3
func.func @f() {
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<2xi32>
  return
}
