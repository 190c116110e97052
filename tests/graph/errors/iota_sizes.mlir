// verify: the sizes of the result tensor<?xi32> are not known
func.func @main() -> tensor<?xi32> {
  %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<?xi32>
  return %0 : tensor<?xi32>
}
