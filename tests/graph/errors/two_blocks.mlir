// 4:1: a second block
func.func @f() {
  return
^bb1:
  return
}
