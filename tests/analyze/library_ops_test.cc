#include "cleave/analyze/library_ops.h"

#include <gtest/gtest.h>

#include "cleave/analyze/kernel_memory.h"
#include "cleave/analyze/kernels.h"
#include "cleave/graph/text/text.h"
#include "cleave/spmd/partition.h"

namespace cleave::analyze {
namespace {

MachineProfile with(const char* executor, double host_us = 0) {
  MachineProfile profile = builtin_profile("h200");
  profile.executor = builtin_executor(executor);
  profile.executor.host_us = host_us;
  return profile;
}

Graph marked(const std::string& text, const MachineProfile& profile) {
  Graph graph = parse_module(text);
  mark_kernels(graph, "main", profile);
  return graph;
}

struct Sums {
  double launches = 0, seconds = 0;
};
Sums sums(const Graph& graph, const MachineProfile& profile) {
  Sums sums;
  graph.walk(graph.find_function("main")->body, [&](NodeId id) {
    const KernelUse use = *kernel_use(graph.node(id));
    sums.launches += use.launches + (use.is_library ? 1 : 0);
    sums.seconds += kernel_seconds(graph, graph.node(id), use, profile);
  });
  return sums;
}
double launches(const std::string& text, const char* executor) {
  const MachineProfile profile = with(executor);
  return sums(marked(text, profile), profile).launches;
}

// silu(gate) * up, and what comes back through silu: g * (s + x s (1 - s)).
const char* const kActivations = R"(
  func.func @main(%gate: tensor<4096x4096xbf16>, %up: tensor<4096x4096xbf16>, %g: tensor<4096x4096xbf16>)
      -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) {
    %one = stablehlo.constant dense<1.0> : tensor<4096x4096xbf16>
    %s = stablehlo.logistic %gate : tensor<4096x4096xbf16>
    %silu = stablehlo.multiply %gate, %s : tensor<4096x4096xbf16>
    %y = stablehlo.multiply %silu, %up : tensor<4096x4096xbf16>
    %0 = stablehlo.multiply %g, %up : tensor<4096x4096xbf16>
    %1 = stablehlo.multiply %0, %s : tensor<4096x4096xbf16>
    %2 = stablehlo.multiply %gate, %0 : tensor<4096x4096xbf16>
    %3 = stablehlo.subtract %one, %s : tensor<4096x4096xbf16>
    %4 = stablehlo.multiply %s, %3 : tensor<4096x4096xbf16>
    %5 = stablehlo.multiply %2, %4 : tensor<4096x4096xbf16>
    %6 = stablehlo.add %1, %5 : tensor<4096x4096xbf16>
    return %y, %6 : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
  })";

// Without a compiler: the gated product, g * up, and the derivative of silu by two tensors.
TEST(LibraryOps, ComputeFromTwoTensorsAtMost) {
  EXPECT_EQ(launches(kActivations, "eager"), 3);
  EXPECT_LT(launches(kActivations, "inductor"), 3);
}

const char* const kRotary = R"(
  func.func @main(%x: tensor<8x16x1024x64xbf16>) -> tensor<8x16x1024x64xbf16> {
    %a = stablehlo.slice %x [0:8, 0:16, 0:1024, 0:32] : (tensor<8x16x1024x64xbf16>) -> tensor<8x16x1024x32xbf16>
    %b = stablehlo.slice %x [0:8, 0:16, 0:1024, 32:64] : (tensor<8x16x1024x64xbf16>) -> tensor<8x16x1024x32xbf16>
    %angle = stablehlo.iota dim = 0 : tensor<1024x32xf32>
    %cos = stablehlo.cosine %angle : tensor<1024x32xf32>
    %sin = stablehlo.sine %angle : tensor<1024x32xf32>
    %c0 = stablehlo.convert %cos : (tensor<1024x32xf32>) -> tensor<1024x32xbf16>
    %s0 = stablehlo.convert %sin : (tensor<1024x32xf32>) -> tensor<1024x32xbf16>
    %c = stablehlo.broadcast_in_dim %c0, dims = [2, 3] : (tensor<1024x32xbf16>) -> tensor<8x16x1024x32xbf16>
    %s = stablehlo.broadcast_in_dim %s0, dims = [2, 3] : (tensor<1024x32xbf16>) -> tensor<8x16x1024x32xbf16>
    %0 = stablehlo.multiply %a, %c : tensor<8x16x1024x32xbf16>
    %1 = stablehlo.multiply %b, %s : tensor<8x16x1024x32xbf16>
    %2 = stablehlo.subtract %0, %1 : tensor<8x16x1024x32xbf16>
    %3 = stablehlo.multiply %b, %c : tensor<8x16x1024x32xbf16>
    %4 = stablehlo.multiply %a, %s : tensor<8x16x1024x32xbf16>
    %5 = stablehlo.add %3, %4 : tensor<8x16x1024x32xbf16>
    %6 = stablehlo.concatenate %2, %5, dim = 3
      : (tensor<8x16x1024x32xbf16>, tensor<8x16x1024x32xbf16>) -> tensor<8x16x1024x64xbf16>
    return %6 : tensor<8x16x1024x64xbf16>
  })";

// Four ops make the tables, and each op of the rotation is a kernel; a compiler makes one of all,
// and computes sines for every element.
TEST(LibraryOps, ReadTablesOfPositions) {
  EXPECT_EQ(launches(kRotary, "eager"), 4 + 7);
  EXPECT_EQ(launches(kRotary, "inductor"), 1);
  const MachineProfile compiled = with("inductor");
  MachineProfile quick = compiled;
  quick.executor.function_ops = 1;
  EXPECT_GT(sums(marked(kRotary, compiled), compiled).seconds,
            3 * sums(marked(kRotary, quick), quick).seconds);
}

// A step of momentum: v = 0.9 v + g, w = w - 0.1 v.
const char* const kUpdate = R"(
  func.func @main(%w: tensor<4096x4096xf32> {tf.aliasing_output = 0 : i32},
                  %v: tensor<4096x4096xf32> {tf.aliasing_output = 1 : i32},
                  %x: tensor<4096x4096xbf16>, %y: tensor<4096x4096xbf16>)
      -> (tensor<4096x4096xf32>, tensor<4096x4096xf32>) {
    %decay = stablehlo.constant dense<0.9> : tensor<4096x4096xf32>
    %rate = stablehlo.constant dense<0.1> : tensor<4096x4096xf32>
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
      : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %g = stablehlo.convert %0 : (tensor<4096x4096xbf16>) -> tensor<4096x4096xf32>
    %1 = stablehlo.multiply %v, %decay : tensor<4096x4096xf32>
    %2 = stablehlo.add %1, %g : tensor<4096x4096xf32>
    %3 = stablehlo.multiply %2, %rate : tensor<4096x4096xf32>
    %4 = stablehlo.subtract %w, %3 : tensor<4096x4096xf32>
    return %4, %2 : tensor<4096x4096xf32>, tensor<4096x4096xf32>
  })";

// Five passes over 64 MiB in f32: w, v and g are read, w and v written. The product and the
// conversion of the gradient are kernels; the optimizer is not one of this parameter.
TEST(LibraryOps, UpdateAllArgumentsInOneKernel) {
  for (const char* executor : {"eager", "inductor"}) {
    const MachineProfile profile = with(executor);
    const Graph graph = marked(kUpdate, profile);
    EXPECT_EQ(sums(graph, profile).launches, 2) << executor;
    double seconds = 0;
    graph.walk(graph.find_function("main")->body, [&](NodeId id) {
      const Node& node = graph.node(id);
      const bool is_before =
          node.name() == "stablehlo.dot_general" || node.name() == "stablehlo.convert";
      if (!is_before) seconds += kernel_seconds(graph, node, *kernel_use(node), profile);
    });
    const double pass = 4096.0 * 4096 * 4 / (profile.memory_gbps * 1e9);
    EXPECT_NEAR(seconds, 5 * pass / profile.executor.update_share, 0.01 * seconds) << executor;
  }
}

// A step takes what the device takes, or what the host takes to launch its kernels.
TEST(LibraryOps, WaitForTheHost) {
  const MachineProfile alone = with("eager"), slow = with("eager", 1000), quick = with("eager", 1);
  const Sums device = sums(marked(kRotary, alone), alone);
  EXPECT_NEAR(sums(marked(kRotary, slow), slow).seconds, device.launches * 1e-3, 1e-9);
  EXPECT_EQ(sums(marked(kRotary, quick), quick).seconds, device.seconds);
}

// A norm, a rectifier and a product, and back. What went into the rectifier is not kept.
const char* const kRectified = R"(
  sdy.mesh @mesh = <["x"=1]>
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16>, %s: tensor<4096xbf16>)
      -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) {
    %zero = stablehlo.constant dense<0.0> : tensor<4096x4096xbf16>
    %one = stablehlo.constant dense<1.0> : tensor<4096x4096xbf16>
    %h = stablehlo.dot %x, %w : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<4096xbf16>) -> tensor<4096x4096xbf16>
    %n = stablehlo.multiply %h, %b : tensor<4096x4096xbf16>
    %r = stablehlo.maximum %n, %zero : tensor<4096x4096xbf16>
    %y = stablehlo.dot %r, %w : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %g = stablehlo.dot %y, %w : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %p = stablehlo.compare GT, %n, %zero : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xi1>
    %m = stablehlo.select %p, %one, %zero : tensor<4096x4096xi1>, tensor<4096x4096xbf16>
    %d = stablehlo.multiply %g, %m : tensor<4096x4096xbf16>
    %k = stablehlo.dot %r, %d : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %e = stablehlo.multiply %d, %h : tensor<4096x4096xbf16>
    return %k, %e : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
  })";

TEST(LibraryOps, DerivativesOfClampsReadTheirResults) {
  for (const char* executor : {"inductor", "eager"}) {
    const Graph graph = marked(kRectified, with(executor));
    const Program program = partition(graph, {.entry = "main"});
    const Instance instance = instantiate_shapes(program, program.mesh->device_at(0));
    NodeId before;  // what makes the rectifier's operand
    instance.graph.walk([&](NodeId id) {
      const Node& node = instance.graph.node(id);
      if (node.name() == "stablehlo.maximum")
        before = instance.graph.value(node.operands[0]).producer;
    });
    ASSERT_TRUE(before.valid());
    // Without a compiler it is there until the rectifier has run, which is the peak of this module.
    if (std::string_view(executor) == "inductor") {
      for (const KernelMemory::Held& held : kernel_memory(program, instance).alive)
        EXPECT_NE(held.made_by, before);
    }
    size_t compares = 0;
    graph.walk([&](NodeId id) {
      const auto use = kernel_use(graph.node(id));
      compares += use && use->clamped == 0;
    });
    EXPECT_EQ(compares, 1u);
  }
  const Graph other = marked(kRectified, with("xla-gpu"));
  other.walk([&](NodeId id) {
    const auto use = kernel_use(other.node(id));
    EXPECT_TRUE(!use || use->clamped == -1);
  });
}

}  // namespace
}  // namespace cleave::analyze
