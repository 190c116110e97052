// 2:16: a region that is not closed
func.func @f() {
  return
