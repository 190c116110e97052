#include <gtest/gtest.h>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/comm_log.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"

// Programs of many devices: a large group that gathers has one array in common.
namespace cleave {
namespace {

const char* kGather = R"(
sdy.mesh @mesh = <["x"=80, "y"=2]>
func.func @main(%x: tensor<99x600xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<99x600xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
  %0 = stablehlo.tanh %x : tensor<99x600xf32>
  return %0 : tensor<99x600xf32>
})";

TEST(ManyDevices, what_is_gathered_is_one_array) {
  const Graph graph = parse_module(kGather, "test");
  const Program program = partition(graph, {.entry = "main"});
  Executable executable(program);
  std::vector<Array> args{make_array(graph.find_function("main")->arg_types[0], "random:1")};
  const std::vector<Array> expected = run_function(graph, "main", args);
  for (int run = 0; run < 3; ++run) {
    CommLog log(CommLog::Unheard{});
    const std::vector<Array> results = executable.run(args, {.log = &log});
    EXPECT_TRUE(identical(results[0], expected[0]));
    EXPECT_EQ(log.count("all_gather"), 1);
    EXPECT_EQ(log.bytes(), 99 * 300 * 4);  // by a device that has nothing itself
    EXPECT_EQ(log.total_bytes(), (160 - 2) * 99 * 300 * 4);
  }
  std::vector<std::vector<Array>> shards(160);
  const Layout& layout =
      program.layout(program.graph.region(program.entry_function().body).args[0]);
  for (int64_t device = 0; device < 160; ++device) {
    const ShardSlice box = layout.box({99, 600}, device);
    shards[device] = {args[0].slice(box.offset, box.size).copy()};
  }
  const auto results = executable.run_shards(shards);
  for (size_t device = 0; device < 160; ++device) {
    EXPECT_EQ(results[device][0].buffer(), results[device % 2][0].buffer());
    EXPECT_EQ(results[device][0].shape(), (Shape{99, 300}));
  }
  EXPECT_NE(results[0][0].buffer(), results[1][0].buffer());
  // Results that are kept are not written over by the next run.
  const Array kept = results[0][0].copy();
  args[0] = make_array(graph.find_function("main")->arg_types[0], "random:2");
  executable.run(args);
  EXPECT_TRUE(identical(results[0][0], kept));
}

}  // namespace
}  // namespace cleave
