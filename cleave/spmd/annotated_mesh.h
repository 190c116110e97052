#pragma once

#include <functional>
#include <string>

#include "cleave/graph/graph.h"

namespace cleave {

// Shardings speak of axes of the module's own mesh; another mesh cannot take its place. Throws
// UserError if the module has shardings on a mesh that does not fit.
//
//   --mesh <["x"=4]>: the module's annotations are of @mesh = <["x"=2]>; leave --mesh out
//
// `option` is what the user said, `way_out` what could be said instead.
void require_annotated_mesh(const Graph& graph, const std::function<bool(const Mesh& own)>& fits,
                            const std::string& option, const std::string& way_out);

// Drops everything that says how values are laid out: the attributes, and on meshes other than
// `mesh` also the ops that have no other purpose. Manual computations stay, since they have a
// meaning on their own mesh alone.
void drop_annotations(Graph& graph, const Mesh& mesh);

}  // namespace cleave
