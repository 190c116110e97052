#pragma once

#include <functional>
#include <string_view>

#include "cleave/machine/fit.h"

namespace cleave {

struct MeasureOptions {
  // About so much processor time: a busy machine takes longer, and measures the same.
  double seconds = 25;
  int64_t most_devices = 8;  // of the collectives
  // Told what is measured next and how much of the work is done, 0 to 1.
  std::function<void(std::string_view what, double done)> progress;
};

// Times what the compiler makes of the ops of every class (host_samples.h) on one thread, each op a
// step of its own; how much several devices disturb each other; and the collectives of devices in
// one process. Each is the fastest of several repeats: what else the machine does only adds.
// Kernels are timed by the processor time of their thread, collectives by that of all threads over
// the number of cores that they use, so that a busy machine measures what an idle one does.
HostTimings measure_host(const MeasureOptions& options = {});

}  // namespace cleave
