#pragma once

#include <functional>
#include <string_view>

#include "cleave/machine/fit.h"

namespace cleave {

struct MeasureOptions {
  double seconds = 40;       // aimed at; sizes are dropped, not repeats, where it would be more
  int64_t most_devices = 8;  // of the collectives
  // Told what is measured next and how much of the work is done, 0 to 1.
  std::function<void(std::string_view what, double done)> progress;
};

// Times the kernels of this process on one thread (matmuls by dtype and size, elementwise ops,
// functions, reductions, softmax, normalisation, transposes, copies: each as the runtime runs it,
// from the smallest, which are all overhead, to what no cache holds), how much several devices
// disturb each other, and the collectives of the local transport. Each is the fastest of several
// repeats: what else the machine does only adds. Kernels are timed by the processor time of their
// thread, collectives by the clock.
HostTimings measure_host(const MeasureOptions& options = {});

}  // namespace cleave
