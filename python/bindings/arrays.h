#pragma once

#include <nanobind/ndarray.h>

#include <vector>

#include "bindings.h"
#include "cleave/kernels/array.h"

// Arrays of NumPy as the library's own, and back. Every dtype goes as bytes: NumPy's exchange of
// arrays has no bfloat16. The interpreter's lock is held.
namespace cleave::python {

// A copy of anything that numpy.asarray takes; `dtype` is that of Python numbers.
Array array_of_object(nb::handle object);
// An array of NumPy, which keeps the buffer alive.
nb::object object_of_array(const Array& array);

}  // namespace cleave::python
