// A sharded module over MPI ranks, compiled with and without cleave-overlap, in turns:
//   cleave trace 'model:gpt?step=grad&sharding=data&mesh=data=2' > step.mlir
//   cleave launch -n 2 -- bench_overlap step.mlir [SECONDS [OPTIONS OF THE PASS]]
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/recorder.h"
#include "cleave/spmd/partition.h"

namespace {

using namespace cleave;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What this process has used and how often it has given its core away, so far.
struct Usage {
  double cpu = 0;  // seconds, of all threads
  double waits = 0;
};
Usage usage() {
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {seconds(r.ru_utime) + seconds(r.ru_stime), static_cast<double>(r.ru_nvcsw)};
}

struct Case {
  std::string name;
  std::unique_ptr<Executable> executable;
  std::vector<std::vector<Array>> args = {}, results = {};
  std::vector<double> times = {};
  Usage used = {};  // in all runs
};

// Seconds that a device waited for transfers, and that they were under way, in one run.
std::pair<double, double> waits(Case& each) {
  Recorder recorder;
  each.executable->run_shards_into(each.args, each.results, {.observer = &recorder});
  double waited = 0, under_way = 0;
  for (const Recorder::Event& event : recorder.events()) {
    if (event.beside) under_way += event.end - event.begin;
    if (event.op.ends_with(".wait")) waited += event.end - event.begin;
  }
  return {waited, under_way};
}

void run(const std::string& file, double seconds, const std::string& options) {
  World* world = World::of_process();
  std::ifstream in(file, std::ios::binary);
  if (!in) throw UserError(file + ": cannot be opened");
  Graph graph = parse_module(std::string(std::istreambuf_iterator<char>(in), {}), file);
  if (!graph.find_function("main")) throw UserError(file + ": has no @main");
  std::vector<Array> whole;
  for (const Type& type : graph.find_function("main")->arg_types)
    whole.push_back(make_array(type, is_integer(type.dtype) ? "zeros" : "random:1"));
  run_propagation_pipeline(graph, {});
  const Program program = partition(graph, {.entry = "main", .mesh = nullptr});
  const std::string all = CompileOptions().passes;
  std::vector<Case> cases;
  cases.push_back(
      {"without", std::make_unique<Executable>(
                      program, CompileOptions{.passes = all.substr(0, all.rfind(','))})});
  cases.push_back(
      {"with", std::make_unique<Executable>(program, CompileOptions{.passes = all + options})});
  const std::vector<ValueId>& values = program.graph.region(program.entry_function().body).args;
  for (Case& each : cases) {
    each.args.resize(static_cast<size_t>(each.executable->num_devices()));
    for (int64_t device : each.executable->own_devices())
      for (size_t i = 0; i < whole.size(); ++i)
        each.args[static_cast<size_t>(device)].push_back(
            shard_of(whole[i], program.layout(values[i]), device));
    for (int warm = 0; warm < 3; ++warm) each.executable->run_shards_into(each.args, each.results);
  }
  // Every rank makes the same number of turns.
  for (const double begin = now();;) {
    Array goes_on = Array::scalar(DType::I32, static_cast<int32_t>(now() - begin < seconds));
    if (world) goes_on = world->gather({goes_on}, "the end of a benchmark")[0][0];
    if (*goes_on.data<int32_t>() == 0) break;
    for (Case& each : cases) {
      const double start = now();
      const Usage before = usage();
      each.executable->run_shards_into(each.args, each.results);
      const Usage after = usage();
      each.times.push_back(now() - start);
      each.used.cpu += after.cpu - before.cpu;
      each.used.waits += after.waits - before.waits;
    }
  }
  for (Case& each : cases) {
    const auto [waited, under_way] = waits(each);
    std::sort(each.times.begin(), each.times.end());
    if (World::rank_of_process() == 0)
      fmt::print(
          "{:<8} overlap: best {:.2f} ms, median {:.2f} ms of {} runs, each {:.2f} ms of processor "
          "time and {:.1f} waits; in one run waited {:.2f} ms of {:.2f} ms under way; arena {} "
          "bytes\n",
          each.name, each.times.front() * 1e3, each.times[each.times.size() / 2] * 1e3,
          each.times.size(), each.used.cpu * 1e3 / static_cast<double>(each.times.size()),
          each.used.waits / static_cast<double>(each.times.size()), waited * 1e3, under_way * 1e3,
          each.executable->stats().arena_bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "cleave launch -n RANKS -- bench_overlap FILE.mlir [SECONDS [OPTIONS]]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::atof(argv[2]) : 3, argc > 3 ? argv[3] : "");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
