#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/kernels/array.h"
#include "random_program.h"

namespace cleave::soak {

// Arguments of a module's @main: whole numbers in [-4, 5], integers in [0, 10).
std::vector<Array> random_arguments(const Graph& graph, uint64_t seed);

// Runs a module in every way there is and compares with the run op by op on one device: printed and
// read again; compiled; and for some meshes and random `shardings` op by op and compiled, with
// every device's graph verified. Says what differs or fails first, nothing where all agree.
std::optional<std::string> fault_of(const std::string& module, uint64_t seed, int shardings = 2);

// The smallest program that can be found which still has a fault: fewer results, steps dropped,
// values made arguments.
RandomProgram shrink(RandomProgram program, uint64_t seed);

}  // namespace cleave::soak
