#pragma once

#include <string>
#include <vector>

#include "bindings.h"
#include "cleave/core/dtype.h"
#include "cleave/core/sharding.h"

// What functions of Python take where the library has values: meshes, layouts, shapes and dtypes in
// all the ways in which a user has them.
namespace cleave::python {

// A mesh of Python.
struct PyMesh {
  MeshPtr mesh;
};

// A Mesh, text, or a mesh of JAX or PyTorch.
MeshPtr mesh_of_object(nb::handle object);
// A Sharding on the same mesh, text, a P of Cleave or JAX, or a list of axes by dimension.
ShardingSpec sharding_of_object(nb::handle object, const MeshPtr& mesh, size_t rank);
// The shape of anything that has one, or a sequence of numbers.
Shape shape_of_object(nb::handle object);
// "f32", "float32", numpy.float32, jax.numpy.bfloat16, torch.float32
DType dtype_of_object(nb::handle object);
// A copy of the graph with a mesh, and with shardings on arguments of a function ("": @main or the
// only one): a dict by number or name, or a list with None for arguments that get none.
Graph with_shardings(const Graph& graph, const std::string& function, nb::handle mesh,
                     nb::handle shardings);
// str(object), of a str itself.
std::string text_of_object(nb::handle object);

}  // namespace cleave::python
