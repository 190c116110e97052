#pragma once

#include "cleave/spmd/single_program.h"

namespace cleave {

// A SingleProgram as a module that XLA takes.

// For num_partitions = n, without a word of sdy: @main has the arrays of a device (padded if shards
// are uneven) for arguments and results, all marked {manual}.
Graph spmd_module(const SingleProgram& program);

// @main has the whole tensors, with their shardings, and is one sdy.manual_computation over all
// axes, whose body is the program. A dimension that its axes do not divide is padded before, and
// cut after. If a layout is by parts of an axis, the mesh has those parts for axes
// (model=8 as model_1=2 and model_2=4). Calls are written out.
Graph manual_module(const SingleProgram& program);

// Throws UserError if the program has an op that gives other numbers on XLA's devices than on
// Cleave's.
void require_same_numbers(const Graph& graph);

}  // namespace cleave
