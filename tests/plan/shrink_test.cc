#include "cleave/plan/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/analyze/program_cost.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/plan/size_classes.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"
#include "tests/support/memory_models.h"

namespace cleave::plan {
namespace {

TEST(SizeClasses, SplitsAndKeepsRemainders) {
  SizeClasses sizes;
  const auto hidden = sizes.add(4096), heads = sizes.add(32), width = sizes.add(128);
  const auto again = sizes.add(4096), rows = sizes.add(1001);
  sizes.tie({hidden}, {heads, width});
  sizes.tie({again}, {hidden});
  sizes.shard(heads, 8);
  sizes.shard(rows, 8);
  sizes.shrink(2);
  EXPECT_EQ(sizes.new_size(heads), 16);
  EXPECT_EQ(sizes.new_size(width), 4);
  EXPECT_EQ(sizes.new_size(hidden), 64);
  EXPECT_EQ(sizes.new_size(again), 64);
  EXPECT_EQ(sizes.new_size(rows), 17);  // 1001 = 125 * 8 + 1
}

TEST(SizeClasses, OffsetsStayAndFrozenStays) {
  SizeClasses sizes;
  const auto tokens = sizes.add(2049), shifted = sizes.add(2048), same = sizes.add(2048);
  sizes.tie_with_offset(tokens, shifted);
  sizes.tie({shifted}, {same});
  sizes.shard(same, 4);
  const auto fixed = sizes.add(50257);
  sizes.freeze(fixed);
  sizes.shrink(2);
  EXPECT_EQ(sizes.new_size(tokens), sizes.new_size(same) + 1);
  EXPECT_EQ(sizes.new_size(same) % 4, 0);
  EXPECT_LT(sizes.new_size(same), 16);
  EXPECT_EQ(sizes.new_size(fixed), 50257);
}

TEST(SizeClasses, NoCommonSplitFreezes) {
  SizeClasses sizes;
  const auto a = sizes.add(4), b = sizes.add(6), c = sizes.add(6), d = sizes.add(4);
  sizes.tie({a, b}, {c, d});
  sizes.shrink(1);
  EXPECT_EQ(sizes.new_size(a) * sizes.new_size(b), 24);
  EXPECT_EQ(sizes.new_size(d), 4);
}

std::vector<Array> random_args(const Program& program) {
  std::vector<Array> args;
  for (const Type& type : program.entry_function().arg_types)
    args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)));
  return args;
}

std::vector<std::string> steps_of(const Program& program) {
  std::vector<std::string> steps;
  program.graph.walk([&](NodeId id) {
    const Node& node = program.graph.node(id);
    if (is_transfer(node)) steps.push_back(std::string(node.attrs.get_string("cleave.step")));
  });
  return steps;
}

// Every model in random layouts: smaller, the same ops and the same changes of layout, still a
// valid program, and still the same as on one device.
TEST(Shrink, SmallerProgramsMeanTheSame) {
  for (const auto& [name, text] : memory_models())
    for (const char* mesh_text : {"x=2,y=2", "x=3"})
      for (uint64_t seed : {1, 2, 3}) {
        Graph graph = parse_module(text);
        Mesh parsed = parse_mesh(mesh_text);
        parsed.name = "mesh";
        const MeshPtr mesh = std::make_shared<const Mesh>(parsed);
        graph.meshes = {mesh};
        shard_randomly(graph, "main", mesh, seed);
        const Program program = partition(graph, {.entry = "main", .mesh = mesh});
        const Shrunk shrunk = shrink(program);
        EXPECT_FALSE(shrunk.changes.empty()) << name;
        EXPECT_EQ(steps_of(shrunk.program), steps_of(program));
        const Graph whole = without_transfers(shrunk.program);
        verify_graph(whole);
        const std::vector<Array> args = random_args(shrunk.program);
        const std::vector<Array> sharded = Executor(shrunk.program).run(args);
        const std::vector<Array> expected = run_function(whole, "main", args);
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(compare(sharded[i], expected[i]).same)
              << name << " " << mesh_text << " " << seed;
      }
}

TEST(Shrink, LongAxesBecomeShort) {
  const Graph graph = parse_module(R"(
    sdy.mesh @mesh = <["data"=8, "model"=16]>
    func.func @main(%x: tensor<256x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                    %w: tensor<4096x16384xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
                    %v: tensor<16384x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
        -> (tensor<256x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
      %0 = stablehlo.dot %x, %w : (tensor<256x4096xf32>, tensor<4096x16384xf32>) -> tensor<256x16384xf32>
      %1 = stablehlo.dot %0, %v : (tensor<256x16384xf32>, tensor<16384x4096xf32>) -> tensor<256x4096xf32>
      return %1 : tensor<256x4096xf32>
    })");
  const Program program = partition(graph, {.entry = "main"});
  const Shrunk shrunk = shrink(program);
  EXPECT_EQ(shrunk.program.mesh->num_devices(), 4);
  EXPECT_EQ(steps_of(shrunk.program), steps_of(program));
  EXPECT_EQ(shrunk.program.entry_function().arg_types[0].shape, (Shape{4, 4}));
  EXPECT_EQ(shrunk.program.entry_function().arg_types[1].shape, (Shape{4, 4}));
  EXPECT_THAT(shrunk.changes, testing::Contains("model: 16 -> 2"));
}

TEST(Shrink, PartsOfAxesBecomeShortOneByOne) {
  const Graph graph = parse_module(R"(
    sdy.mesh @mesh = <["x"=4, "y"=8]>
    func.func @main(%x: tensor<1024x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y":(1)2}, {}]>})
        -> (tensor<1024x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y":(1)2}]>}) {
      %0 = stablehlo.tanh %x : tensor<1024x64xf32>
      return %0 : tensor<1024x64xf32>
    })");
  const Program program = partition(graph, {.entry = "main"});
  const Shrunk shrunk = shrink(program);
  EXPECT_EQ(to_string(*shrunk.program.mesh), R"(<["x"=2, "y"=4]>)");  // "y":(1)2 and "y":(2)4
  EXPECT_EQ(steps_of(shrunk.program), steps_of(program));
  const std::vector<Array> args = random_args(shrunk.program);
  EXPECT_TRUE(compare(Executor(shrunk.program).run(args)[0],
                      run_function(without_transfers(shrunk.program), "main", args)[0])
                  .same);
}

}  // namespace
}  // namespace cleave::plan
