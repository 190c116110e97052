// Values that are computed again where they are read: the same bits, less memory.
#include "cleave/compile/recompute.h"

#include <gtest/gtest.h>

#include "cleave/compile/executable.h"
#include "cleave/compile/fuse.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/models/registry.h"
#include "cleave/rewrite/simplify.h"
#include "cleave/runtime/fill.h"

namespace cleave {
namespace {

// A function and its derivative with much in between; the norm's statistics are rows.
constexpr const char* kText = R"(
func.func @main(%x: tensor<64x256xf32>, %w: tensor<256x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
  %sq = stablehlo.multiply %h, %h : tensor<64x256xf32>
  %s = stablehlo.reduce(%sq init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
  %r = stablehlo.rsqrt %s : tensor<64xf32>
  %rb = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<64xf32>) -> tensor<64x256xf32>
  %n = stablehlo.multiply %h, %rb : tensor<64x256xf32>
  %t = stablehlo.tanh %n : tensor<64x256xf32>
  %y = stablehlo.multiply %h, %t : tensor<64x256xf32>
  %a1 = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
  %a2 = stablehlo.dot_general %a1, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
  %a3 = stablehlo.dot_general %a2, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
  %a4 = stablehlo.dot_general %a3, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
  %a5 = stablehlo.dot_general %a4, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
  %d1 = stablehlo.multiply %a5, %t : tensor<64x256xf32>
  %d2 = stablehlo.multiply %d1, %n : tensor<64x256xf32>
  %d3 = stablehlo.add %d2, %h : tensor<64x256xf32>
  return %a5, %d3 : tensor<64x256xf32>, tensor<64x256xf32>
})";

TEST(Recompute, WhatIsReadMuchLater) {
  Graph graph = parse_module(kText, "test");
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types)
    args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)));
  const std::vector<Array> expected = run_function(graph, "main", args);
  Executable without(graph, "main", {.passes = "cleave-simplify,cleave-fuse"});
  Executable with(graph, "main",
                  {.passes = "cleave-simplify,cleave-fuse,cleave-recompute{distance=3}"});
  EXPECT_LT(with.stats().arena_bytes, without.stats().arena_bytes);
  const std::vector<Array> a = without.run(args), b = with.run(args);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(identical(a[i], b[i])) << i;

  simplify(graph);
  fuse(graph);
  ASSERT_TRUE(recompute(graph, {.distance = 3}));
  EXPECT_NO_THROW(verify_graph(graph));
  // The norm's factor is kept; the normalised value and its tanh are not.
  const Region& body = graph.region(graph.find_function("main")->body);
  for (NodeId id : body.nodes)
    if (graph.node(id).name() == "cleave.fusion") {
      EXPECT_EQ(graph.node(id).results.size(), 2u);
      EXPECT_EQ(graph.type(graph.node(id).results[1]).shape, Shape{64});
      break;
    }
  const Graph again = parse_module(print_module(graph), "printed");
  const std::vector<Array> c = run_function(again, "main", args);
  for (size_t i = 0; i < c.size(); ++i) EXPECT_TRUE(identical(c[i], expected[i])) << i;
}

TEST(Recompute, TrainStepsTakeLessMemory) {
  for (const char* name : {"model:gpt?layers=2&d=64&step=train", "model:encoder?step=train",
                           "model:moe?step=train", "model:mlp?step=train"}) {
    SCOPED_TRACE(name);
    const models::BuiltModel model = models::build_model(name);
    std::vector<Array> args;
    for (const Tensor& tensor : model.arguments) args.push_back(tensor.to_host());
    const std::string before = "cleave-simplify,cleave-fuse-epilogues,cleave-fuse";
    Executable without(model.graph, "main", {.passes = before});
    Executable with(model.graph, "main", {.passes = before + ",cleave-recompute"});
    EXPECT_LE(with.stats().arena_bytes, without.stats().arena_bytes);
    EXPECT_NO_THROW(verify_graph(with.graph()));
    const std::vector<Array> a = without.run(args), b = with.run(args);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(identical(a[i], b[i])) << i;
  }
}

}  // namespace
}  // namespace cleave
