// A compiled step that has run before asks for no memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cleave/compile/executable.h"
#include "cleave/models/registry.h"
#include "cleave/rules/pipelines.h"
#include "cleave/spmd/partition.h"
#include "tests/compile/count_allocations.h"

namespace cleave {
namespace {

std::vector<Array> arrays_of(const models::BuiltModel& model) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : model.arguments) arrays.push_back(tensor.to_host());
  return arrays;
}

// Runs in which results take the place of the arguments that are donated for them, and arguments
// whose memory the run did not take that of results.
int64_t allocations_of_runs(Executable& executable, const Function& function,
                            std::vector<std::vector<Array>>& args) {
  std::vector<std::pair<size_t, size_t>> donated;  // argument, result
  for (size_t i = 0; i < function.arg_attrs.size(); ++i)
    if (function.arg_attrs[i].has("tf.aliasing_output"))
      donated.emplace_back(i, function.arg_attrs[i].get_int("tf.aliasing_output", 0));
  std::vector<std::vector<Array>> results;
  auto step = [&] {
    executable.run_shards_into(args, results);
    for (size_t device = 0; device < args.size(); ++device)
      for (const auto& [argument, result] : donated)
        std::swap(args[device][argument], results[device][result]);
  };
  for (int warm = 0; warm < 4; ++warm) step();
  // A thread makes its oneDNN stream when it first gets a part of the work, which on a busy machine
  // may be late: the fewest of several counts.
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (int attempt = 0; attempt < 6 && fewest > 0; ++attempt) {
    const int64_t before = allocation_count();
    for (int run = 0; run < 5; ++run) step();
    fewest = std::min(fewest, allocation_count() - before);
  }
  return fewest;
}

// Training and inference of the models, on one device, with one thread and several.
class SteadyState : public testing::TestWithParam<const char*> {};

TEST_P(SteadyState, OfOneDevice) {
  const models::BuiltModel model = models::build_model(GetParam());
  std::vector<std::vector<Array>> args = {arrays_of(model)};
  const Function& function = *model.graph.find_function("main");
  for (int threads : {1, 2}) {
    Executable executable(model.graph, "main", {.threads = threads});
    ASSERT_TRUE(executable.is_compiled());
    EXPECT_EQ(executable.stats().fallbacks, 0u);
    EXPECT_EQ(allocations_of_runs(executable, function, args), 0) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, SteadyState,
    testing::Values("model:gpt?layers=2&d=32&step=train", "model:gpt?layers=1&d=32&step=forward",
                    "model:gpt?layers=1&d=32&step=train&dtype=bf16",
                    "model:gpt?layers=1&d=32&step=train&dtype=f16", "model:mlp?step=train",
                    "model:mlp?step=train&optimizer=momentum", "model:encoder?step=train",
                    "model:moe?step=train", "model:resnet?step=train", "model:unet?step=train",
                    "model:resnet?step=forward", "model:moe?step=grad"));

TEST(SteadyStateOf, ManyDevices) {
  for (const char* text : {"gpt?layers=1&d=32&step=train&mesh=data=2,model=2&sharding=data",
                           "gpt?layers=1&d=32&step=train&mesh=data=2,model=2&sharding=megatron",
                           "gpt?layers=1&d=32&step=train&mesh=data=2,model=2&sharding=fsdp",
                           "gpt?layers=1&d=32&step=train&mesh=data=2,model=2&sharding=mixed",
                           "gpt?layers=1&d=32&step=grad&mesh=data=2,model=2&sharding=data",
                           "mlp?step=train&mesh=data=2,model=2&sharding=mixed",
                           "encoder?step=train&mesh=data=2,model=2&sharding=mixed",
                           "moe?step=train&mesh=data=2,model=2&sharding=data",
                           "resnet?step=train&mesh=data=2,model=2&sharding=data",
                           "unet?step=train&mesh=data=2,model=2&sharding=data"}) {
    SCOPED_TRACE(text);
    const models::BuiltModel model = models::build_model(std::string("model:") + text);
    Graph graph = model.graph;
    run_propagation_pipeline(graph, {});
    const Program program = partition(graph, {.entry = "main", .mesh = nullptr});
    const std::vector<Array> whole = arrays_of(model);
    const std::vector<ValueId>& values = program.graph.region(program.entry_function().body).args;
    std::vector<std::vector<Array>> args(static_cast<size_t>(program.mesh->num_devices()));
    for (size_t d = 0; d < args.size(); ++d)
      for (size_t i = 0; i < whole.size(); ++i)
        args[d].push_back(
            shard_of(whole[i], program.layout(values[i]), static_cast<int64_t>(d)).contiguous());
    Executable executable(program);
    ASSERT_TRUE(executable.is_compiled());
    EXPECT_GT(executable.stats().transfers, 0u);
    EXPECT_EQ(executable.stats().fallbacks, 0u);
    EXPECT_EQ(allocations_of_runs(executable, program.entry_function(), args), 0);
  }
}

// The same with parameters and state that are donated: results become the next arguments.
TEST(SteadyStateOf, DonatedArguments) {
  const models::BuiltModel model = models::build_model("model:gpt?layers=1&d=32&step=train");
  std::vector<std::vector<Array>> args = {arrays_of(model)}, results;
  for (Array& array : args[0]) array = array.copy();
  const Function& function = *model.graph.find_function("main");
  std::vector<size_t> donate;
  for (size_t i = 0; i + 1 < function.arg_types.size(); ++i) donate.push_back(i);
  Executable executable(model.graph, "main", {.donate = donate});
  EXPECT_GE(executable.stats().donated + 2, donate.size());
  // Results of the step: the loss among parameters and state, in the order of the arguments.
  auto step = [&] {
    executable.run_shards_into(args, results);
    size_t next = 0;
    for (Array& result : results[0]) {
      while (next < donate.size() && args[0][next].valid()) ++next;
      if (next < donate.size() && result.shape() == function.arg_types[next].shape)
        args[0][next] = std::move(result);
    }
    for (size_t i = 0; i < donate.size(); ++i) ASSERT_TRUE(args[0][i].valid()) << i;
  };
  for (int warm = 0; warm < 3; ++warm) step();
  const int64_t before = allocation_count();
  step();
  EXPECT_LE(allocation_count() - before, 4);  // of the loss, which this test does not put back
}

}  // namespace
}  // namespace cleave
