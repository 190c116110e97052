// Ten ways to shard each of three models: does the predicted time of a step rank them as measured?
//
//   bench_plan_ranking [PROFILE.json [ROUNDS]]     without a profile, this host is measured first
//
// Prices are those of the planner: of the program marked with what this library's compiler makes of
// it (analyze/kernels.h). Measured are compiled steps on four virtual devices that share the cores
// of this machine, by the clock and by the processor time of all devices together over the number
// of cores, each the fastest of many. A machine that does other things as well disturbs the clock;
// it disturbs processor time less.

#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <thread>

#include "cleave/analyze/program_cost.h"
#include "cleave/compile/executable.h"
#include "cleave/compile/measure_host.h"
#include "cleave/models/registry.h"
#include "cleave/plan/names.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace {

using namespace cleave;

struct Model {
  const char* name;
  const char* text;
};
constexpr Model kModels[] = {
    {"transformer",
     "model:gpt?layers=2&d=256&heads=4&kv_heads=4&hidden=1024&vocab=2048&batch=8&length=64&"
     "step=train"},
    {"mixture of experts",
     "model:moe?layers=2&d=128&heads=4&kv_heads=4&hidden=256&vocab=1024&experts=4&batch=8&"
     "length=64&step=train"},
    {"ResNet", "model:resnet?channels=32&size=32&batch=8&step=train"},
};

// A scheme by name over a mesh, or a random layout of every argument; the rest follows.
struct Ways {
  const char* name;
  const char* mesh;
  const char* scheme;
  uint64_t seed = 0;
};
constexpr Ways kWays[] = {
    {"everything everywhere", "data=2,model=2", "replicated"},
    {"data over 4", "data=4", "data"},
    {"data over 2 of 2x2", "data=2,model=2", "data"},
    {"megatron over 4", "model=4", "megatron"},
    {"megatron over 2 of 2x2", "data=2,model=2", "megatron"},
    {"fully sharded over 4", "data=4", "fsdp"},
    {"fully sharded, 2 of 2x2", "data=2,model=2", "fsdp"},
    {"data and model", "data=2,model=2", "mixed"},
    {"random arguments 1", "data=2,model=2", "replicated", 1},
    {"random arguments 2", "data=2,model=2", "replicated", 2},
    {"random arguments 3", "data=4", "replicated", 3},
    {"random arguments 4", "data=4", "replicated", 4},
    {"random arguments 5", "data=2,model=2", "replicated", 5},
};
constexpr size_t kCount = 10;

constexpr const char* kSharding = "sdy.sharding";

// The result that takes the place of an argument; -1: none.
int64_t successor(const Function& main, size_t argument) {
  return argument < main.arg_attrs.size()
             ? main.arg_attrs[argument].get_int("tf.aliasing_output", -1)
             : -1;
}

// What a step of training gives back has the layout of what it was given.
void return_as_given(Function& main) {
  main.result_attrs.resize(main.result_types.size());
  for (size_t i = 0; i < main.arg_attrs.size(); ++i)
    if (const int64_t result = successor(main, i); result >= 0)
      if (const Attribute* sharding = main.arg_attrs[i].find(kSharding))
        main.result_attrs[static_cast<size_t>(result)].set(kSharding, *sharding);
}

// The module with its shardings; with a profile, marked for what its executor makes of it.
Graph sharded(const Model& model, const Ways& ways, const MachineProfile* profile) {
  Mesh parsed = parse_mesh(ways.mesh);
  parsed.name = "mesh";
  const Graph built =
      models::build_model(fmt::format("{}&sharding={}", model.text, ways.scheme), &parsed).graph;
  Graph graph = profile ? plan::flatten(built, "main", *profile) : plan::flatten(built, "main");
  if (ways.seed > 0) {
    Function& main = *graph.find_function("main");
    RandomSource random(ways.seed);
    main.arg_attrs.resize(main.arg_types.size());
    for (size_t i = 0; i < main.arg_types.size(); ++i)
      main.arg_attrs[i].set(kSharding, ShardingAttr{random_spec(random, graph.meshes.at(0),
                                                                main.arg_types[i], false)});
  }
  return_as_given(*graph.find_function("main"));
  run_propagation_pipeline(graph, {});
  return graph;
}

Program make(const Model& model, const Ways& ways, const MachineProfile& profile, bool marked) {
  const Graph graph = sharded(model, ways, marked ? &profile : nullptr);
  return partition(graph, {.entry = "main", .mesh = graph.meshes.at(0), .profile = &profile});
}

double busy_now() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Candidate {
 public:
  Candidate(const Model& model, const Ways& ways, const MachineProfile& profile)
      : executable_(make(model, ways, profile, false)),
        cost_(analyze::program_cost(make(model, ways, profile, true), profile)) {
    shards_.resize(static_cast<size_t>(executable_.num_devices()));
    for (size_t device = 0; device < shards_.size(); ++device)
      for (const Type& type :
           executable_.graph(static_cast<int64_t>(device)).find_function("main")->arg_types)
        shards_[device].push_back(make_array(type, "random:1"));
    for (int i = 0; i < 2; ++i) run();
  }
  void step() {
    const double begin = now(), busy_begin = busy_now();
    run();
    clock = std::min(clock, now() - begin);
    busy = std::min(busy, busy_now() - busy_begin);
  }
  const analyze::ProgramCost& cost() const { return cost_; }

  double clock = 1e300, busy = 1e300;  // the fastest step

 private:
  // Weights and optimizer state are given away, and the new ones go into the next step.
  void run() {
    executable_.run_shards_into(shards_, results_);
    const Function& main = *executable_.graph().find_function("main");
    for (size_t device = 0; device < shards_.size(); ++device)
      for (size_t i = 0; i < shards_[device].size(); ++i)
        if (const int64_t result = successor(main, i); result >= 0)
          std::swap(shards_[device][i], results_[device][static_cast<size_t>(result)]);
  }

  Executable executable_;
  analyze::ProgramCost cost_;
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

void rank(const Model& model, const MachineProfile& profile, int rounds) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<Candidate>> candidates;
  std::vector<const char*> names;
  // Ten that differ: a scheme may come to the same as another one.
  for (const Ways& ways : kWays) {
    if (candidates.size() == kCount) break;
    auto next = std::make_unique<Candidate>(model, ways, profile);
    const bool is_known = std::any_of(candidates.begin(), candidates.end(), [&](const auto& other) {
      return std::abs(other->cost().seconds / next->cost().seconds - 1) < 1e-9;
    });
    if (is_known) continue;
    candidates.push_back(std::move(next));
    names.push_back(ways.name);
  }
  // By turns, so that what else the machine does hits all of them.
  for (int round = 0; round < rounds; ++round)
    for (const auto& candidate : candidates) candidate->step();
  fmt::print("{}: {}\n{:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}\n", model.name, model.text,
             "milliseconds", "compute", "transfers", "predicted", "processor", "clock", "ratio");
  std::vector<double> predicted, processor, clock;
  double least = 1e300, most = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = *candidates[i];
    predicted.push_back(candidate.cost().seconds);
    processor.push_back(candidate.busy / cores);
    clock.push_back(candidate.clock);
    const double ratio = predicted.back() / processor.back();
    least = std::min(least, ratio);
    most = std::max(most, ratio);
    fmt::print("{:<24} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>7.2f}\n", names[i],
               candidate.cost().compute_seconds * 1e3, candidate.cost().transfer_seconds * 1e3,
               predicted.back() * 1e3, processor.back() * 1e3, clock.back() * 1e3, ratio);
  }
  fmt::print(
      "Spearman with processor time {:.3f}, with the clock {:.3f}; predicted over processor time "
      "{:.2f} to {:.2f}\n\n",
      spearman(predicted, processor), spearman(predicted, clock), least, most);
}

}  // namespace

int main(int argc, char** argv) {
  const MachineProfile profile =
      argc > 1 ? load_profile(argv[1])
               : fit_profile(measure_host({.seconds = 20, .most_devices = 4, .progress = {}}));
  const int rounds = argc > 2 ? std::max(1, std::stoi(argv[2])) : 40;
  for (const Model& model : kModels) rank(model, profile, rounds);
}
