// Ten ways to shard one model: does the predicted time of a step rank them as the clock does?
//
//   bench_plan_ranking [PROFILE.json]     without a profile, this host is measured first (20 s)
//
// Virtual devices share the cores of this machine. Prints predicted and measured milliseconds of
// every plan, op by op and compiled, and Spearman's rank correlation between them. On a machine
// that does other things as well the clock is noisy; processor time, which all devices spend
// together, is not.

#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>

#include "cleave/analyze/compiled_cost.h"
#include "cleave/analyze/program_cost.h"
#include "cleave/compile/executable.h"
#include "cleave/compile/measure_host.h"
#include "cleave/graph/text/text.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
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

// Layouts of w1, w2 and the batch over x=2,y=2; the rest follows. A seed: every value in a random
// layout.
struct Ways {
  const char* name;
  const char* w1;
  const char* w2;
  const char* batch;
  uint64_t seed = 0;
};
constexpr const char* kMesh = "x=2,y=2";
constexpr Ways kWays[] = {
    {"everything everywhere", "[{}, {}]", "[{}, {}]", "[{}, {}]"},
    {"data parallel over x", "[{}, {}]", "[{}, {}]", R"([{"x"}, {}])"},
    {"column then row over y", R"([{}, {"y"}])", R"([{"y"}, {}])", "[{}, {}]"},
    {"data and model", R"([{}, {"y"}])", R"([{"y"}, {}])", R"([{"x"}, {}])"},
    {"fully sharded", R"([{"x", "y"}, {}])", R"([{"x", "y"}, {}])", R"([{"x", "y"}, {}])"},
    {"random 1", "", "", "", 1},
    {"random 2", "", "", "", 2},
    {"random 3", "", "", "", 3},
    {"random 4", "", "", "", 4},
    {"random 5", "", "", "", 5},
};

Program make(const Ways& ways, const MachineProfile& profile) {
  Graph graph = parse_module(kModel);
  Mesh parsed = parse_mesh(kMesh);
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

double busy_now() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The fastest of many steps, by the clock and by the processor time of all devices together.
struct Measured {
  double clock = 1e300, busy = 1e300;

  void step(const std::function<void()>& run) {
    const double begin = now(), busy_begin = busy_now();
    run();
    clock = std::min(clock, now() - begin);
    busy = std::min(busy, busy_now() - busy_begin);
  }
};

// One plan, run op by op and compiled.
class Candidate {
 public:
  explicit Candidate(const Program& program) : executor_(program, nullptr), executable_(program) {
    shards_.resize(static_cast<size_t>(executor_.num_devices()));
    for (int64_t device = 0; device < executor_.num_devices(); ++device)
      for (const Type& type : executor_.instance(device).graph.find_function("main")->arg_types)
        shards_[static_cast<size_t>(device)].push_back(make_array(type, "random:1"));
  }
  void step() {
    op_by_op.step([&] { executor_.run_shards(shards_); });
    compiled.step([&] { executable_.run_shards_into(shards_, results_); });
  }
  double predicted(const MachineProfile& profile) const {
    return analyze::program_cost(executor_.program(), profile).seconds;
  }
  double predicted_compiled(const MachineProfile& profile) const {
    return analyze::compiled_cost(executable_, profile).seconds();
  }

  Measured op_by_op, compiled;

 private:
  Executor executor_;
  Executable executable_;
  std::vector<std::vector<Array>> shards_, results_;
};

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
  const MachineProfile profile =
      argc > 1 ? load_profile(argv[1])
               : fit_profile(measure_host({.seconds = 20, .most_devices = 4, .progress = {}}));
  std::vector<std::unique_ptr<Candidate>> candidates;
  for (const Ways& ways : kWays)
    candidates.push_back(std::make_unique<Candidate>(make(ways, profile)));
  // By turns, so that what else the machine does hits all of them.
  for (int round = 0; round < 60; ++round)
    for (const auto& candidate : candidates) candidate->step();
  std::vector<double> predicted, compiled, clocks[2], processor[2];
  fmt::print("{:<24} {:^36}   {:^36}\n{:<24}", "milliseconds", "op by op", "compiled", "");
  for (int i = 0; i < 2; ++i)
    fmt::print(" {:>12} {:>11} {:>12}", "predicted", "clock", "processor");
  fmt::print("\n");
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = *candidates[i];
    predicted.push_back(candidate.predicted(profile));
    compiled.push_back(candidate.predicted_compiled(profile));
    fmt::print("{:<24}", kWays[i].name);
    for (int way = 0; way < 2; ++way) {
      const Measured& measured = way ? candidate.compiled : candidate.op_by_op;
      clocks[way].push_back(measured.clock);
      processor[way].push_back(measured.busy);
      fmt::print(" {:>12.2f} {:>11.2f} {:>12.2f}", (way ? compiled : predicted).back() * 1e3,
                 measured.clock * 1e3, measured.busy * 1e3);
    }
    fmt::print("\n");
  }
  fmt::print(
      "Spearman with the clock: op by op {:.3f}, compiled {:.3f} (the planner's own price {:.3f})\n"
      "Spearman with processor time: op by op {:.3f}, compiled {:.3f}\n",
      spearman(predicted, clocks[0]), spearman(compiled, clocks[1]), spearman(predicted, clocks[1]),
      spearman(predicted, processor[0]), spearman(compiled, processor[1]));
}
