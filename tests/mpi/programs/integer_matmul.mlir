// Integers: sums are the same bits in every order.
func.func @main(%x: tensor<8x12xi32>, %w: tensor<12x6xi32>) -> (tensor<8x6xi32>, tensor<8xi32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %least = stablehlo.constant dense<-2147483648> : tensor<i32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x12xi32>, tensor<12x6xi32>) -> tensor<8x6xi32>
  %1 = stablehlo.multiply %0, %0 : tensor<8x6xi32>
  %2 = stablehlo.reduce(%1 init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<8x6xi32>, tensor<i32>) -> tensor<8xi32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xi32>, tensor<i32>) -> tensor<i32>
  return %1, %2, %3 : tensor<8x6xi32>, tensor<8xi32>, tensor<i32>
}
