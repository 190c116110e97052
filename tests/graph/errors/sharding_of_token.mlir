// verify: for !stablehlo.token, which is no tensor
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%t: !stablehlo.token {sdy.sharding = #sdy.sharding<@mesh, [], replicated={"x"}>}) -> !stablehlo.token {
  return %t : !stablehlo.token
}
