// verify: the manual axis "z" is not in the mesh
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"z"} (%y: tensor<4x4xf32>) {
    sdy.return %y : tensor<4x4xf32>
  } : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
