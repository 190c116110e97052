// Two matrix products with a nonlinearity between them, of sizes that no mesh divides.
func.func @main(%x: tensor<7x10xf32>, %w: tensor<10x9xf32>, %v: tensor<9x5xf32>) -> (tensor<7x5xf32>, tensor<5xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<7x10xf32>, tensor<10x9xf32>) -> tensor<7x9xf32>
  %1 = stablehlo.tanh %0 : tensor<7x9xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<7x9xf32>, tensor<9x5xf32>) -> tensor<7x5xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<7x5xf32>, tensor<f32>) -> tensor<5xf32>
  return %2, %3 : tensor<7x5xf32>, tensor<5xf32>
}
