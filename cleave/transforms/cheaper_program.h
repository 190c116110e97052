#pragma once

#include "cleave/graph/graph.h"
#include "cleave/spmd/partition.h"

namespace cleave {

// The Program of a traced function, with scalars that are reduced together combined. There are two
// candidates. In one, shardings are propagated through the whole function, which lets ops run in
// parts because of what comes later; in the other, every op follows from its operands, as it does
// when it is recorded and run at once. The one that takes less time is chosen, communication
// included; if both take about the same time, the one that communicates less. So a compiled
// function does not communicate for longer than the same ops called one by one.
//
//   sort(sort(x) * 2 + x) of a cut dimension: one all_gather, and the rest on whole values; cut
//   again before the second sort, as propagation would have it, is a second all_gather
//
// What the trace asks of propagation (open dimensions, priorities, groups) is always followed.
Program cheaper_program(Graph trace, const MeshPtr& mesh);

}  // namespace cleave
