#pragma once

#include <functional>

#include "cleave/graph/graph.h"
#include "cleave/rewrite/pass.h"
#include "cleave/spmd/program.h"

namespace cleave {

// What the schedule believes of the machine: only how times compare matters.
struct OverlapOptions {
  double flops = 2e10;      // per second
  double memory = 5e9;      // bytes per second
  double link = 1e9;        // bytes per second
  double latency = 100e-6;  // seconds
};
// Of a call of the pass: cleave-overlap{latency-us=100 link-mb=1000}.
OverlapOptions overlap_options(const PassOptions& options);

// Orders the nodes of every region so that changes of layout run beside other work, and marks them
// (`cleave.overlap`): they start where they stand, and are waited for where their result is read.
//
//   %g = dot_general ...                     %g = dot_general ...
//   %h = dot_general ...                     %s = cleave.transfer %g   starts
//   %s = cleave.transfer %g                  %h = dot_general ...
//   %u = subtract %w, %s                     %u = subtract %w, %s      waits
//
// A transfer starts as early as it can. If the result is larger than the operand (a gathered
// weight), it starts only so early that the result is there in time, since that takes memory from
// then on. What reads
// a result is put off, as long as there is something else to do, until it should have arrived.
//
// A device graph keeps the order of its transfers and of everything else that has effects: all
// devices start the same ones in the same order, so that they never wait for each other in a
// circle.
void overlap_transfers(Graph& graph, const OverlapOptions& options = {});
// The same for the Program, before devices are derived from it: here transfers may change places.
void order_transfers(Program& program, const OverlapOptions& options = {});

}  // namespace cleave
