// verify: is declared as tensor<1x!quant.uniform<u8:f32, 1.0:17>>, but inferred as
func.func @main(%x: tensor<1x!quant.uniform<i8:f32, 1.0:17>>) -> tensor<1x!quant.uniform<u8:f32, 1.0:17>> {
  %0 = "stablehlo.add"(%x, %x) : (tensor<1x!quant.uniform<i8:f32, 1.0:17>>, tensor<1x!quant.uniform<i8:f32, 1.0:17>>) -> tensor<1x!quant.uniform<u8:f32, 1.0:17>>
  return %0 : tensor<1x!quant.uniform<u8:f32, 1.0:17>>
}
