#pragma once

#include <string>
#include <vector>

#include "cleave/cli/sharded_run.h"

namespace cleave::cli {

// Plugins write a log of their own to standard error; only what ends the process is let through,
// unless the user has set the variable that says otherwise.
void quiet_plugins();

// Runs a function on one device of XLA's engine.
std::vector<Array> run_on_xla(const Graph& graph, const std::string& entry,
                              const std::vector<Array>& args, const ShardingOptions& options);
// Runs a partitioned program on as many devices as its mesh has: whole arrays in and out.
std::vector<Array> run_on_xla(const Program& program, const std::vector<Array>& args,
                              const ShardingOptions& options);

}  // namespace cleave::cli
