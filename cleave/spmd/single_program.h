#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/spmd/program.h"

namespace cleave {

// One program that every device runs. What differs between devices (where a slice, an iota, a
// lookup or a halo begins, how many elements of a short shard count) is read from tables at
// stablehlo.partition_id, and changes of layout are StableHLO's collectives with their replica
// groups. Device d of the mesh is partition d.
//
// Arrays have the shape of the largest shard. The true elements of a device are the leading corner;
// what is in the rest is not defined, and no result depends on it:
//
//   7 rows over x=2: 4 rows on each; the last row of device 1 is whatever an op made of it.
//   A sum over the rows takes 0 for it.
//
// An op of which devices run different forms (a convolution at the border of the image) is a
// stablehlo.case with a branch for each form.
struct SingleProgram {
  // An argument or result of the entry: the whole tensor, and where its elements are.
  struct Port {
    Type whole;
    Layout layout;
  };

  Graph graph;
  std::string entry;
  MeshPtr mesh;
  std::vector<Port> arguments, results;

  const Function& entry_function() const;
};

SingleProgram single_program(const Program& program);

}  // namespace cleave
