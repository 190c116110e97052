// 2:25: a tensor with more than 2^63 elements
func.func @f(%a: tensor<9999999999x9999999999xf32>) {
  return
}
