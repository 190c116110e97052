#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/run_partitions.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/program_module.h"

namespace cleave {

// Runs the text of the program that is the same for all devices, and compares what each of them
// returns with its part of what is expected; runs the manual form of it as well, whole.
inline void expect_single_program(const Program& program, const std::vector<Array>& args,
                                  const std::vector<Array>& expected) {
  const SingleProgram single = single_program(program);
  const std::string text = print_module(spmd_module(single));
  SCOPED_TRACE(text);
  const Graph graph = parse_module(text);
  const int64_t devices = num_partitions(graph, single.entry);
  std::vector<std::vector<Array>> by_device(static_cast<size_t>(devices));
  for (size_t i = 0; i < args.size(); ++i) {
    const std::vector<Array> shards = padded_shards(single.arguments[i], args[i], devices);
    for (size_t d = 0; d < shards.size(); ++d) by_device[d].push_back(shards[d]);
  }
  const auto results = run_partitions(graph, single.entry, by_device);
  bool pending = false;
  for (size_t i = 0; i < expected.size(); ++i) {
    const SingleProgram::Port& port = single.results[i];
    pending |= port.layout.spec.is_partial();
    std::vector<Array> padded;
    for (const std::vector<Array>& own : results) padded.push_back(own[i]);
    EXPECT_TRUE(compare(joined_shards(port, padded), expected[i]).same) << "result " << i;
    for (size_t d = 0; !port.layout.spec.is_partial() && d < results.size(); ++d) {
      const ShardSlice box = port.layout.box(port.whole.shape, static_cast<int64_t>(d));
      const Comparison comparison = compare(true_shard(port, padded[d], static_cast<int64_t>(d)),
                                            expected[i].slice(box.offset, box.size).contiguous());
      EXPECT_TRUE(comparison.same) << "result " << i << " of device " << d << " differs by "
                                   << comparison.max_difference << ", " << comparison.first;
    }
  }
  if (pending) return;  // which a manual computation refuses
  const Graph manual = parse_module(print_module(manual_module(single)));
  const std::vector<Array> whole = run_function(manual, single.entry, args);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(compare(whole[i], expected[i]).same) << "result " << i << " of the manual form";
}

// A module run on one device and over its mesh with made-up arguments: every device's graph is
// verified, the results are compared, and the log says which collectives it took. The program that
// is the same for all devices is run beside it.
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
    expect_single_program(program, args, expected);
    const Node& end = program.graph.node(program.graph.terminator(main.body));
    for (ValueId result : end.operands) results.push_back(program.layout(result).spec);
  }
};

}  // namespace cleave
