// verify: there is no function @g
func.func @f() {
  call @g() : () -> ()
  return
}
