// verify: has 1 dimensions but the tensor <4x6> has 2
sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}]>] manual_axes={} (%y: tensor<4x6xf32>) {
    sdy.return %y : tensor<4x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
