#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cleave/discover/operator.h"
#include "cleave/spmd/program.h"

namespace cleave {

// An op of the registry as an operator, from calls of it (op_call.h). Its part on a device is the
// op's own local form if it has one (OpDef::localize), else the op on the local operands with
// inferred results. No rule is asked, so that what is found can be held against the rule.
Operator operator_of_calls(const std::vector<Graph>& calls);

// By name, from the samples of the registry: "stablehlo.dot_general". Nothing if the registry
// has no such op. Throws a UserError that says why if the op has no sample.
std::optional<Operator> find_registry_operator(std::string_view name);

// The parts of all devices, each with its own graph, made ready to run. Throws UserError if an
// op has no part for these layouts.
DeviceRun run_program(const Program& program);

}  // namespace cleave
