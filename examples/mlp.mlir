// A Megatron MLP: the first matrix is split by columns, the second follows.
sdy.mesh @mesh = <["data"=2, "model"=4]>

func.func @main(
    %x: tensor<64x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w: tensor<512x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
    %v: tensor<2048x512xf32>) -> tensor<64x512xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
     : (tensor<64x512xf32>, tensor<512x2048xf32>) -> tensor<64x2048xf32>
  %a = stablehlo.tanh %h : tensor<64x2048xf32>
  %y = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0]
     : (tensor<64x2048xf32>, tensor<2048x512xf32>) -> tensor<64x512xf32>
  return %y : tensor<64x512xf32>
}
