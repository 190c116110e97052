module {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @f(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, %arg1: tensor<16x4xf32>, %arg2: tensor<2x8x8x3xf32>, %arg3: tensor<3x3x3x5xf32>) -> (tensor<8xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<[1, -2, 3]> : tensor<3xi8>
    %c_0 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %cst = stablehlo.constant dense<(1.000000e+00,-2.000000e+00)> : tensor<complex<f32>>
    %cst_1 = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
    %0 = stablehlo.iota dim = 1 : tensor<8x16xi32>
    %1 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, HIGHEST] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y":(1)2}]>]>} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.convolution(%arg2, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<2x4x4x5xf32>
    %3 = stablehlo.slice %arg0 [0:8:2, 4:16] : (tensor<8x16xf32>) -> tensor<4x12xf32>
    %4 = sdy.sharding_constraint %arg0 <@mesh, [{"y"}, {}]> : tensor<8x16xf32>
    %5 = sdy.all_to_all [{"y"}: 0->1] %4 out_sharding=<@mesh, [{}, {"y"}]> : tensor<8x16xf32>
    %6 = sdy.all_gather [{}, {"y"}] %5 out_sharding=<@mesh, [{}, {}]> : tensor<8x16xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%1 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
    %c_3 = stablehlo.constant dense<3> : tensor<i32>
    %8:2 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %7) : tensor<i32>, tensor<8xf32>
    cond {
      %c_5 = stablehlo.constant dense<0> : tensor<i32>
      %9 = stablehlo.compare GT, %iterArg, %c_5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      %c_5 = stablehlo.constant dense<1> : tensor<i32>
      %9 = stablehlo.subtract %iterArg, %c_5 : tensor<i32>
      %10 = func.call @g(%iterArg_4) : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %9, %10 : tensor<i32>, tensor<8xf32>
    }
    return %8#1 : tensor<8xf32>
  }
  func.func private @g(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
