// 3:3: unknown op
func.func @f() {
  nobody.knows %0
  return
}
