#pragma once

#include <optional>
#include <vector>

#include "cleave/compile/device_code.h"
#include "cleave/rewrite/pass.h"

namespace cleave {

// From a device's graph to its code: calls are inlined, passes run, steps are made. `donate` names
// arguments whose memory results may take; times of passes are added to `timings`. Returns nothing
// if the graph cannot be compiled.
std::optional<DeviceCode> compile_instance(Instance instance, const std::vector<PassCall>& passes,
                                           const std::vector<size_t>& donate,
                                           const LowerOptions& options,
                                           std::vector<PassTiming>& timings);

}  // namespace cleave
