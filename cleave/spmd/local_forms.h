#pragma once

#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/spmd/own_values.h"

namespace cleave {

// What one device makes of an op: nodes over arguments that stand for the operands.
struct LocalForm {
  Graph graph;
  RegionId body;  // its arguments are the inputs
  std::vector<ValueId> results;
};

// Forms that differ at most in the values of constants and in where slices begin, and so can be
// written once for several devices. `devices` are by form.
//
//   iota over two devices: (iota + 0, iota + 4) are alike, with a table {0, 4}
struct FormGroup {
  std::vector<const LocalForm*> forms;
  std::vector<int64_t> form_of;  // by device: an index of forms; that of another group is 0
};

bool are_alike(const LocalForm& a, const LocalForm& b);

// Writes the forms of a group at the end of the region of `own`, with these values for the inputs;
// gives the results.
std::vector<ValueId> write_group(const FormGroup& group, std::span<const ValueId> inputs,
                                 OwnValues& own);

}  // namespace cleave
