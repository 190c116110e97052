#pragma once

#include <string>
#include <vector>

#include "cleave/transforms/trace.h"
#include "tensors.h"

// Functions of Python over lists of leaves. Trees are taken apart and put together in Python
// (python/cleave/transforms.py): here, a function takes a list of Tensors and returns a list.
namespace cleave::python {

using Names = std::vector<std::string>;

// Python's lists of Tensors, in which None is an empty Tensor.
nb::list list_of(const Tensors& tensors);
Tensors leaves_of(nb::handle list);

// The function on arguments like the leaves, without values, as a graph.
Trace traced(const nb::callable& function, const Tensors& leaves, Names names);

}  // namespace cleave::python
