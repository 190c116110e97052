#pragma once

// Modules: read from text, printed, run on one device; propagated, partitioned over a mesh and
// compiled; and the comparison of two runs.
//
//   Graph graph = parse_module(text);
//   std::vector<Array> whole = run_function(graph, "main", args);
//   Executable executable(partition(graph, {.mesh = mesh}));
//   compare_runs(graph, "main", args, whole, executable.run(args)).same();
#include "cleave/compile/executable.h"
#include "cleave/core/placement.h"
#include "cleave/core/sharding.h"
#include "cleave/graph/graph.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/array.h"
#include "cleave/rules/propagate/propagation.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/compare_runs.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/runtime/npy.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/program.h"
