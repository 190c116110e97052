#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cleave/cli/sharded_run.h"
#include "cleave/pjrt/client.h"

namespace cleave::cli {

// Whether --engine asks for XLA: xla, xla:NAME or xla:PATH.
bool is_xla_engine(const std::string& engine);

// The client of --engine xla[:PLUGIN], with at least as many devices; its plugin logs errors only.
std::shared_ptr<pjrt::Client> xla_client(const std::string& engine, int64_t devices);

// Runs a function on one device of XLA's engine. check.* ops of its body are evaluated here, on
// what XLA computed.
std::vector<Array> run_on_xla(const Graph& graph, const std::string& entry,
                              const std::vector<Array>& args, const ShardingOptions& options);
// Runs a partitioned program on as many devices as its mesh has: whole arrays in and out.
std::vector<Array> run_on_xla(const Program& program, const std::vector<Array>& args,
                              const ShardingOptions& options);

}  // namespace cleave::cli
