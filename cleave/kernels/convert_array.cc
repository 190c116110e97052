#include "cleave/kernels/convert.h"
#include "cleave/kernels/loop.h"

namespace cleave {

Array convert(const Array& array, DType dtype) {
  if (array.dtype() == dtype) return array;
  const DType from = array.dtype();
  return run_loop(convert_loop(from, dtype), {&array, 1}, {&from, 1}, dtype, dtype);
}

}  // namespace cleave
