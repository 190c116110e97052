// verify: the body folds tensor<i8>, which does not hold all of operand 0, tensor<4xi32>
func.func @main(%x: tensor<4xi32>, %init: tensor<i8>) -> tensor<i8> {
  %0 = "stablehlo.reduce"(%x, %init) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<i8>, %b: tensor<i8>):
    %1 = stablehlo.add %a, %b : tensor<i8>
    stablehlo.return %1 : tensor<i8>
  }) : (tensor<4xi32>, tensor<i8>) -> tensor<i8>
  return %0 : tensor<i8>
}
