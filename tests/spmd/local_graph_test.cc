#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>

#include "cleave/core/error.h"
#include "cleave/discover/certify.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/models/registry.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

// Every device's graph is one that the verifier takes: sizes of windows, limits of slices and
// shapes of broadcasts are those of the shard, also where it is empty.

namespace cleave {
namespace {

// What is wrong with a device's graph; empty: nothing.
std::string fault(const Program& program, int64_t device) {
  const Instance instance = instantiate(program, device);
  try {
    verify_graph(instance.graph, {.shardings = false});
    return "";
  } catch (const UserError& error) {
    return fmt::format("device {}: {}", device, error.what());
  }
}

// The faults of a module under some random shardings, by op.
void check(const Graph& module, const std::string& entry, const Mesh& mesh, uint64_t seeds,
           std::map<std::string, std::string>& faults) {
  const auto shared = std::make_shared<const Mesh>(mesh);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Graph sharded = module;
    sharded.meshes = {shared};
    shard_randomly(sharded, entry, shared, seed);
    const Program program = partition(sharded, {.entry = entry, .mesh = shared});
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      const std::string text = fault(program, device);
      if (!text.empty()) faults.emplace(text.substr(text.find(": ") + 2, 40), text);
    }
  }
}

void expect_none(const std::map<std::string, std::string>& faults) {
  for (const auto& [op, text] : faults) ADD_FAILURE() << text;
}

const Mesh kSmall({{"x", 2}}), kUneven({{"x", 3}, {"y", 2}}), kEmpty({{"x", 7}, {"y", 2}});

TEST(LocalGraph, OfEveryOpIsValid) {
  std::map<std::string, std::string> faults;
  for (const Graph& sample : registry_samples())
    for (const Mesh& mesh : {kSmall, kUneven, kEmpty})
      check(sample, sample.functions[0].name, mesh, 3, faults);
  expect_none(faults);
}

TEST(LocalGraph, OfModelsIsValid) {
  std::map<std::string, std::string> faults;
  for (const char* name : {"model:mlp?d=6&batch=5", "model:gpt?layers=1"}) {
    const models::BuiltModel model = models::build_model(name);
    check(model.graph, "main", kUneven, 1, faults);
  }
  expect_none(faults);
}

// Tensors so small that most devices hold nothing: the graphs are valid, and the results the same.
TEST(LocalGraph, OfSmallShapesIsValidAndRight) {
  std::ifstream file(std::string(CLEAVE_TEST_DIR) + "/small_shapes.mlir");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Graph module = parse_module(text, "small_shapes.mlir");
  verify_graph(module);
  ASSERT_GT(module.functions.size(), 20u);
  std::map<std::string, std::string> faults;
  for (const Function& function : module.functions) {
    for (const Mesh& mesh : {kSmall, kUneven, kEmpty})
      check(module, function.name, mesh, 4, faults);
    std::vector<Array> args;
    for (size_t i = 0; i < function.arg_types.size(); ++i)
      args.push_back(make_array(function.arg_types[i], fmt::format("random:{}", i + 1)));
    const std::vector<Array> expected = run_function(module, function.name, args);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Graph sharded = module;
      const auto mesh = std::make_shared<const Mesh>(kUneven);
      sharded.meshes = {mesh};
      shard_randomly(sharded, function.name, mesh, seed);
      const Executor executor(partition(sharded, {.entry = function.name, .mesh = mesh}));
      const std::vector<Array> actual = executor.run(args);
      for (size_t i = 0; i < actual.size(); ++i)
        EXPECT_TRUE(compare(actual[i], expected[i]).same)
            << "@" << function.name << ", result " << i << ", seed " << seed;
    }
  }
  expect_none(faults);
}

}  // namespace
}  // namespace cleave
