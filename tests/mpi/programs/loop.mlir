// A loop whose body communicates, and a branch.
func.func @main(%x: tensor<6x6xf32>, %v: tensor<6xf32>) -> tensor<6xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %f0 = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %u = %v) : tensor<i32>, tensor<6xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %0 = stablehlo.dot_general %x, %u, contracting_dims = [1] x [0] : (tensor<6x6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %1 = stablehlo.tanh %0 : tensor<6xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %1 : tensor<i32>, tensor<6xf32>
    }
  %s = stablehlo.reduce(%r#1 init: %f0) applies stablehlo.add across dimensions = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
  %p = stablehlo.compare GT, %s, %f0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %b = "stablehlo.if"(%p) ({
    %y = stablehlo.exponential %r#1 : tensor<6xf32>
    stablehlo.return %y : tensor<6xf32>
  }, {
    %y = stablehlo.negate %r#1 : tensor<6xf32>
    stablehlo.return %y : tensor<6xf32>
  }) : (tensor<i1>) -> tensor<6xf32>
  return %b : tensor<6xf32>
}
