// 16-bit floats, bytes, booleans and complex numbers; large enough for reductions in pieces.
func.func @main(%h: tensor<24x40xf16>, %b: tensor<40x24xbf16>, %i: tensor<64x48xi8>, %c: tensor<12x10xcomplex<f32>>, %p: tensor<9x4xi1>) -> (tensor<24x24xf16>, tensor<24xbf16>, tensor<48xi8>, tensor<12x10xcomplex<f32>>, tensor<4xi1>) {
  %zb = stablehlo.constant dense<0.0> : tensor<bf16>
  %zi = stablehlo.constant dense<0> : tensor<i8>
  %zp = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.dot_general %h, %h, contracting_dims = [1] x [1] : (tensor<24x40xf16>, tensor<24x40xf16>) -> tensor<24x24xf16>
  %1 = stablehlo.reduce(%b init: %zb) applies stablehlo.add across dimensions = [0] : (tensor<40x24xbf16>, tensor<bf16>) -> tensor<24xbf16>
  %2 = stablehlo.reduce(%i init: %zi) applies stablehlo.add across dimensions = [0] : (tensor<64x48xi8>, tensor<i8>) -> tensor<48xi8>
  %3 = stablehlo.multiply %c, %c : tensor<12x10xcomplex<f32>>
  %4 = stablehlo.reduce(%p init: %zp) applies stablehlo.or across dimensions = [0] : (tensor<9x4xi1>, tensor<i1>) -> tensor<4xi1>
  return %0, %1, %2, %3, %4 : tensor<24x24xf16>, tensor<24xbf16>, tensor<48xi8>, tensor<12x10xcomplex<f32>>, tensor<4xi1>
}
