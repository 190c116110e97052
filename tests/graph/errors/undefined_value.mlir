// 3:28: use of an undefined value %1
func.func @f(%a: tensor<f32>) {
  %0 = stablehlo.add %a,   %1 : tensor<f32>
  return
}
