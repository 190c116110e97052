#pragma once

#include <cstdint>

#include "cleave/machine/collective.h"
#include "cleave/machine/executor_profile.h"

namespace cleave {

// How an executor runs collectives beside computation: plain data, by the executor's name.
// docs/internals/planner.md says where the numbers come from.
struct OverlapRules {
  bool overlaps = false;  // false: nothing below counts
  // While the next kernel waits for a collective, others run that come at most so many kernels
  // later in the program; 1: kernels run in the order of the program.
  int64_t kernels_ahead = 1;
  // Of the device's memory, what weights may hold that are gathered before they are used.
  double prefetch_share = 0;
  // Small collectives of one kind over one group run as one, up to this size of their results; 0:
  // each runs alone.
  double combine_bytes = 0;
  // The same for all_gathers and reduce_scatters, by the larger side of their buffers, if they are
  // those of the parameters of a layer; 0: as the others.
  double layer_bytes = 0;
  bool operator==(const OverlapRules&) const = default;
};
OverlapRules overlap_rules(const ExecutorProfile& executor);

// The bytes up to which collectives of this kind over a group of so many run as one, by the larger
// side of a buffer; 0: each runs alone.
double combine_limit(CollectiveKind kind, int64_t ranks, const ExecutorProfile& executor);

}  // namespace cleave
