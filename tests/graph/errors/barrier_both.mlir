// verify: allows both directions, and so is no barrier
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = sdy.propagation_barrier %x allowed_direction=BOTH : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
