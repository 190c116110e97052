#pragma once

#include <string>
#include <vector>

#include "cleave/cli/sharded_run.h"

namespace cleave::cli {

// Plugins write a log of their own to standard error; only what ends the process is let through,
// unless the user has set the variable that says otherwise.
void quiet_plugins();

// Runs a function on one device of XLA's engine. check.* ops of its body are evaluated here, on
// what XLA computed.
std::vector<Array> run_on_xla(const Graph& graph, const std::string& entry,
                              const std::vector<Array>& args, const ShardingOptions& options);
// Runs a partitioned program on as many devices as its mesh has: whole arrays in and out.
std::vector<Array> run_on_xla(const Program& program, const std::vector<Array>& args,
                              const ShardingOptions& options);
// Runs a module that is the program of each of several devices: arrays by device, then by number.
std::vector<std::vector<Array>> run_partitions_on_xla(const Graph& graph, const std::string& entry,
                                                      int64_t partitions,
                                                      const std::vector<std::vector<Array>>& args,
                                                      const std::string& engine);

}  // namespace cleave::cli
