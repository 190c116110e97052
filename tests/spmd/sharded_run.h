#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"

namespace cleave {

// A module run on one device and over its mesh with made-up arguments: every device's graph is
// verified, the results are compared, and the log says which collectives it took.
struct ShardedRun {
  CommLog log;
  std::vector<ShardingSpec> results;  // layouts before completion where no attribute asks for one

  explicit ShardedRun(const std::string& text, uint64_t seed = 1) {
    const Graph graph = parse_module(text);
    const Executor executor(partition(graph, {.entry = "main"}));
    const Program& program = executor.program();
    for (int64_t device = 0; device < program.mesh->num_devices(); ++device)
      EXPECT_NO_THROW(verify_graph(instantiate(program, device).graph)) << text;
    const Function& main = program.entry_function();
    std::vector<Array> args;
    for (size_t i = 0; i < main.arg_types.size(); ++i)
      args.push_back(make_array(main.arg_types[i], "random:" + std::to_string(seed + i)));
    const std::vector<Array> actual = executor.run(args, {.log = &log});
    const std::vector<Array> expected = run_function(graph, "main", args);
    for (size_t i = 0; i < actual.size(); ++i) {
      const Comparison comparison = compare(actual[i], expected[i]);
      EXPECT_TRUE(comparison.same) << "result " << i << " differs by " << comparison.max_difference
                                   << ", " << comparison.first << "\n"
                                   << text;
    }
    const Node& end = program.graph.node(program.graph.terminator(main.body));
    for (ValueId result : end.operands) results.push_back(program.layout(result).spec);
  }
};

}  // namespace cleave
