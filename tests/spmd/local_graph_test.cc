#include <gtest/gtest.h>

#include <map>

#include "cleave/core/error.h"
#include "cleave/discover/certify.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/models/registry.h"
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

}  // namespace
}  // namespace cleave
