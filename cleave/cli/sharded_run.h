#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cleave/compile/executable.h"
#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"
#include "cleave/plan/plan.h"
#include "cleave/runtime/interpreter.h"

namespace cleave::cli {

// What `cleave run` takes to run a module over a mesh of virtual devices.
struct ShardingOptions {
  std::string mesh;   // "x=2,y=4"; empty: the module's own
  std::string shard;  // "annotations", "replicated" or "random:SEED"; empty: not sharded
  bool verify = false;
  bool compile = true;  // false: op by op
  std::string passes = CompileOptions().passes;
  bool describe = false;       // print what was compiled, and the memory plan
  bool wide_sums = true;       // pending sums of 16-bit floats in 32 bits
  bool communication = false;  // print what was sent, and for which ops
  bool stats = false;          // print the memory of a device as well, measured and predicted
  int64_t repeat = 0;          // of XLA: run so often again, and print what a run takes
  std::shared_ptr<const plan::Plan> plan;  // run as it says, op by op; null: there is none
  std::string engine = "cleave";           // or xla, xla:PLUGIN

  bool uses_xla() const { return engine != "cleave"; }
  bool wanted() const { return !mesh.empty() || !shard.empty() || plan || verify || communication; }
};

// Runs on one device. XLA's results are compared with Cleave's own if `verify` asks for it.
std::vector<Array> run_whole(const Graph& graph, const std::string& entry,
                             const std::vector<Array>& args, const ShardingOptions& options,
                             Observer* observer);

// Shards, partitions and runs; gives whole results. With `verify`, also runs the module on one
// device, prints how far the results are apart and throws UserError if they are not the same.
std::vector<Array> run_sharded(const Graph& graph, const std::string& entry,
                               const std::vector<Array>& args, const ShardingOptions& options,
                               Observer* observer);

}  // namespace cleave::cli
