#include "cleave/analyze/program_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "cleave/graph/text/text.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"
#include "tests/support/memory_models.h"

namespace cleave::analyze {
namespace {

MemoryUse measure(const Executor& executor) {
  std::vector<Array> args;
  for (const Type& type : executor.program().entry_function().arg_types)
    args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)));
  MemoryUse use;
  executor.run(args, {.memory = &use});
  return use;
}

Program sharded(const std::string& text, const char* mesh_text, uint64_t seed) {
  Graph graph = parse_module(text);
  Mesh parsed = parse_mesh(mesh_text);
  parsed.name = "mesh";
  const MeshPtr mesh = std::make_shared<const Mesh>(parsed);
  drop_shardings_and_meshes(graph);
  graph.meshes = {mesh};
  if (seed > 0) shard_randomly(graph, "main", mesh, seed);
  return partition(graph, {.entry = "main", .mesh = mesh});
}

int64_t sum(const BytesByClass& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

// What the runtime measures, for five kinds of models, whole and in random layouts, uneven ones
// included.
TEST(ProgramMemory, PredictsWhatTheRuntimeMeasures) {
  for (const auto& [name, text] : plan::memory_models())
    for (const char* mesh : {"x=2,y=2", "x=3"})
      for (uint64_t seed : {0, 1, 2, 3}) {
        // Odd numbers of channels run in other kernels of the library, with buffers of their own.
        if (name == "conv net" && std::string(mesh) == "x=3") continue;
        const Executor executor(sharded(text, mesh, seed));
        const MemoryUse measured = measure(executor);
        int64_t predicted = 0;
        for (int64_t device = 0; device < executor.num_devices(); ++device) {
          const ProgramMemory memory = program_memory(executor.program(), device);
          EXPECT_EQ(sum(memory.at_peak), memory.peak);
          // Devices that hold the identity of a pending sum need less than is said of them.
          EXPECT_GE(static_cast<double>(memory.peak),
                    0.95 * static_cast<double>(measured.peaks[device]))
              << name << " on " << mesh << " seed " << seed << " device " << device << "\n"
              << to_string(memory, executor.program());
          predicted = std::max(predicted, memory.peak);
        }
        EXPECT_NEAR(static_cast<double>(predicted), static_cast<double>(measured.peak()),
                    0.05 * static_cast<double>(measured.peak()))
            << name << " on " << mesh << " seed " << seed;
        // The same in every run.
        EXPECT_EQ(measure(executor).peaks, measured.peaks);
        EXPECT_GE(measured.peak(), program_memory(executor.program()).arguments);
      }
}

constexpr const char* kChain = R"(
  func.func @main(%x: tensor<1024xf32>%s) -> tensor<1024xf32> {
    %0 = stablehlo.reshape %x : (tensor<1024xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = stablehlo.reshape %1 : (tensor<32x32xf32>) -> tensor<1024xf32>
    %3 = stablehlo.negate %2 : tensor<1024xf32>
    return %3 : tensor<1024xf32>
  })";

std::string chain(const char* attribute) {
  std::string text = kChain;
  return text.replace(text.find("%s"), 2, attribute);
}

TEST(ProgramMemory, ViewsShareAndDonatedArgumentsEnd) {
  // x, its packed transpose, and the sum, which takes its place.
  const Program kept = partition(parse_module(chain("")), {.entry = "main"});
  EXPECT_EQ(program_memory(kept).peak, 2 * 4096);
  EXPECT_EQ(program_memory(kept).arguments, 4096);
  const Program donated =
      partition(parse_module(chain(" {jax.buffer_donor = true}")), {.entry = "main"});
  EXPECT_EQ(program_memory(donated).peak, 2 * 4096);
  EXPECT_EQ(program_memory(donated).timeline.back(), 4096);
  EXPECT_EQ(program_memory(kept).timeline.back(), 2 * 4096);
  EXPECT_EQ(measure(Executor(kept)).peak(), 2 * 4096);
}

TEST(ProgramMemory, SaysWhatIsAlive) {
  const Program program = sharded(plan::memory_models().at("mlp"), "x=2", 0);
  const MemoryClasses classes = memory_classes(program);
  // w1, w2, their moments, then the batch.
  EXPECT_THAT(classes.arguments,
              testing::ElementsAre(MemoryClass::Parameters, MemoryClass::Parameters,
                                   MemoryClass::OptimizerState, MemoryClass::OptimizerState,
                                   MemoryClass::Inputs, MemoryClass::Inputs));
  const ProgramMemory memory = program_memory(program);
  EXPECT_EQ(memory.at_peak[static_cast<size_t>(MemoryClass::Parameters)] % 4, 0);
  EXPECT_GT(memory.at_peak[static_cast<size_t>(MemoryClass::Activations)], 0);
  EXPECT_THAT(to_string(memory, program), testing::HasSubstr("optimizer state"));
  int gradients = 0;
  for (MemoryClass memory_class : classes.nodes)
    gradients += memory_class == MemoryClass::Gradients;
  EXPECT_EQ(gradients, 2);
}

}  // namespace
}  // namespace cleave::analyze
