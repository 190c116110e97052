// Ten ways to shard one model: does the predicted time of a step rank them as the clock does?
//
//   bench_plan_ranking [PROFILE.json]     without a profile, this host is measured first (20 s)
//
// Virtual devices are threads that share the cores of this machine. Prints predicted and measured
// milliseconds of every plan and Spearman's rank correlation between them.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "cleave/graph/text/text.h"
#include "cleave/plan/program_cost.h"
#include "cleave/rules/sharding_passes.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/measure_host.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace {

using namespace cleave;

// Two layers of 512 x 1024, forward and backward, a step of gradient descent.
constexpr const char* kModel = R"(
  func.func @main(%w1: tensor<512x1024xf32>, %w2: tensor<1024x512xf32>, %x: tensor<512x512xf32>, %y: tensor<512x512xf32>)
      -> (tensor<512x1024xf32>, tensor<1024x512xf32>) {
    %rate = stablehlo.constant dense<0.01> : tensor<f32>
    %h = stablehlo.dot %x, %w1 : (tensor<512x512xf32>, tensor<512x1024xf32>) -> tensor<512x1024xf32>
    %a = stablehlo.tanh %h : tensor<512x1024xf32>
    %p = stablehlo.dot %a, %w2 : (tensor<512x1024xf32>, tensor<1024x512xf32>) -> tensor<512x512xf32>
    %d = stablehlo.subtract %p, %y : tensor<512x512xf32>
    %g2 = stablehlo.dot_general %a, %d, contracting_dims = [0] x [0] : (tensor<512x1024xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
    %da = stablehlo.dot_general %d, %w2, contracting_dims = [1] x [1] : (tensor<512x512xf32>, tensor<1024x512xf32>) -> tensor<512x1024xf32>
    %aa = stablehlo.multiply %a, %a : tensor<512x1024xf32>
    %t = stablehlo.multiply %da, %aa : tensor<512x1024xf32>
    %dh = stablehlo.subtract %da, %t : tensor<512x1024xf32>
    %g1 = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<512x512xf32>, tensor<512x1024xf32>) -> tensor<512x1024xf32>
    %r1 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<512x1024xf32>
    %r2 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<1024x512xf32>
    %u1 = stablehlo.multiply %g1, %r1 : tensor<512x1024xf32>
    %u2 = stablehlo.multiply %g2, %r2 : tensor<1024x512xf32>
    %v1 = stablehlo.subtract %w1, %u1 : tensor<512x1024xf32>
    %v2 = stablehlo.subtract %w2, %u2 : tensor<1024x512xf32>
    return %v1, %v2 : tensor<512x1024xf32>, tensor<1024x512xf32>
  })";

// Layouts of w1, w2 and the batch; the rest follows. Empty: whole.
struct Ways {
  const char* name;
  const char* mesh;
  const char* w1;
  const char* w2;
  const char* batch;
  uint64_t seed = 0;  // not 0: every value in a random layout
};
constexpr Ways kWays[] = {
    {"one device", "x=1", "[{}, {}]", "[{}, {}]", "[{}, {}]"},
    {"everything twice", "x=2", "[{}, {}]", "[{}, {}]", "[{}, {}]"},
    {"data parallel, 2", "x=2", "[{}, {}]", "[{}, {}]", R"([{"x"}, {}])"},
    {"column then row, 2", "x=2", R"([{}, {"x"}])", R"([{"x"}, {}])", "[{}, {}]"},
    {"sharded weights, 2", "x=2", R"([{"x"}, {}])", R"([{"x"}, {}])", R"([{"x"}, {}])"},
    {"everything four times", "x=4", "[{}, {}]", "[{}, {}]", "[{}, {}]"},
    {"data parallel, 4", "x=4", "[{}, {}]", "[{}, {}]", R"([{"x"}, {}])"},
    {"data and model, 2 x 2", "x=2,y=2", R"([{}, {"y"}])", R"([{"y"}, {}])", R"([{"x"}, {}])"},
    {"random layouts", "x=2,y=2", "", "", "", 3},
    {"other random layouts", "x=4", "", "", "", 5},
};

Program make(const Ways& ways, const MachineProfile& profile) {
  Graph graph = parse_module(kModel);
  Mesh parsed = parse_mesh(ways.mesh);
  parsed.name = "mesh";
  const MeshPtr mesh = std::make_shared<const Mesh>(parsed);
  graph.meshes = {mesh};
  if (ways.seed > 0) {
    shard_randomly(graph, "main", mesh, ways.seed);
  } else {
    Function& main = *graph.find_function("main");
    main.arg_attrs.resize(4);
    main.result_attrs.resize(2);
    const char* specs[] = {ways.w1, ways.w2, ways.batch, ways.batch};
    for (size_t i = 0; i < 4; ++i)
      main.arg_attrs[i].set("sdy.sharding", ShardingAttr{parse_sharding(specs[i], mesh)});
    for (size_t i = 0; i < 2; ++i)
      main.result_attrs[i].set("sdy.sharding", ShardingAttr{parse_sharding(specs[i], mesh)});
    run_propagation_pipeline(graph, {});
  }
  return partition(graph, {.entry = "main", .mesh = mesh, .profile = &profile});
}

double measure(Program program) {
  const Executor executor(std::move(program));
  std::vector<std::vector<Array>> shards(executor.num_devices());
  for (int64_t device = 0; device < executor.num_devices(); ++device)
    for (const Type& type : executor.instance(device).graph.find_function("main")->arg_types)
      shards[device].push_back(make_array(type, "random:1"));
  double best = 1e300;
  for (int i = 0; i < 12; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    executor.run_shards(shards);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t i = 0; i < order.size(); ++i) result[order[i]] = static_cast<double>(i);
  return result;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  const double n = static_cast<double>(x.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

}  // namespace

int main(int argc, char** argv) {
  MachineProfile profile;
  if (argc > 1)
    profile = load_profile(argv[1]);
  else
    profile = fit_profile(measure_host({.seconds = 20, .most_devices = 4, .progress = {}}));
  std::vector<double> predicted, measured;
  for (const Ways& ways : kWays) {
    const Program program = make(ways, profile);
    predicted.push_back(plan::program_cost(program, profile).seconds);
    measured.push_back(measure(program));
  }
  const std::vector<double> by_clock = ranks(measured), by_model = ranks(predicted);
  fmt::print("{:<24} {:>12} {:>12} {:>8} {:>8}\n", "", "predicted ms", "measured ms", "rank",
             "rank");
  for (size_t i = 0; i < predicted.size(); ++i)
    fmt::print("{:<24} {:>12.2f} {:>12.2f} {:>8.0f} {:>8.0f}\n", kWays[i].name, predicted[i] * 1e3,
               measured[i] * 1e3, by_model[i] + 1, by_clock[i] + 1);
  fmt::print("Spearman {:.3f}\n", spearman(predicted, measured));
}
