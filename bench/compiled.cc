// Runs a module many times, op by op and compiled, on one device or over the module's own mesh:
//   bench_compiled FILE.mlir [--mesh annotations] [--seconds S] [--passes LIST] [--json]
// Without a file: examples/transformer.mlir, on one device and on eight. Against something outside:
// bench/compiled_vs_jax.py.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/allocation_count.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"

namespace {

using namespace cleave;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Wall-clock time of one run, and processor time of all threads: on a busy machine the second says
// more.
struct Times {
  double best = 1e30, median = 0, processor = 0;
};

template <typename Run>
Times measure(double seconds, Run run) {
  run();
  std::vector<double> times;
  const double processor = processor_now();
  for (const double end = now() + seconds; times.size() < 5 || now() < end;) {
    const double begin = now();
    run();
    times.push_back(now() - begin);
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2],
          (processor_now() - processor) / static_cast<double>(times.size())};
}

std::vector<Array> arguments(const Graph& graph) {
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types)
    args.push_back(make_array(type, is_integer(type.dtype) ? "zeros" : "random:1"));
  return args;
}

// What a device holds at most: arguments, results and what lies between.
size_t peak_bytes(const CodeStats& stats) {
  return stats.arena_bytes + stats.argument_bytes + stats.result_bytes + stats.constant_bytes;
}

void report(const std::string& file, int64_t devices, bool json, const Times& eager,
            const Times& compiled, double compile_seconds, const Executable& executable,
            size_t eager_peak) {
  const CodeStats stats = executable.stats();
  if (json) {
    fmt::print(
        "{{\"devices\": {}, \"eager_ms\": {:.4f}, \"compiled_ms\": {:.4f}, \"compiled_median_ms\": "
        "{:.4f}, \"compiled_cpu_ms\": {:.4f}, \"eager_cpu_ms\": {:.4f}, \"compile_ms\": {:.1f}, "
        "\"arena_bytes\": {}, \"argument_bytes\": {}, "
        "\"result_bytes\": {}, \"peak_bytes\": {}, \"eager_peak_bytes\": {}}}\n",
        devices, eager.best * 1e3, compiled.best * 1e3, compiled.median * 1e3,
        compiled.processor * 1e3, eager.processor * 1e3, compile_seconds * 1e3, stats.arena_bytes,
        stats.argument_bytes, stats.result_bytes, peak_bytes(stats), eager_peak);
    return;
  }
  fmt::print(
      "{} on {} device{}: op by op {:.3f} ms, compiled {:.3f} ms (median {:.3f}): {:.2f} times "
      "faster; peak memory of a device: op by op {:.2f} MiB, compiled {:.2f} MiB; compiled in "
      "{:.0f} "
      "ms\n{}",
      file, devices, devices == 1 ? "" : "s", eager.best * 1e3, compiled.best * 1e3,
      compiled.median * 1e3, eager.best / compiled.best,
      static_cast<double>(eager_peak) / (1 << 20),
      static_cast<double>(peak_bytes(stats)) / (1 << 20), compile_seconds * 1e3,
      describe(executable));
}

void run_whole(const Graph& graph, const std::string& file, double seconds, bool json,
               const CompileOptions& options) {
  const double begin = now();
  Executable executable(graph, "main", options);
  const double compile_seconds = now() - begin;
  std::vector<std::vector<Array>> args = {arguments(graph)}, results;
  const Times compiled = measure(seconds, [&] { executable.run_shards_into(args, results); });
  const Times eager = measure(seconds / 2, [&] { run_function(graph, "main", args[0]); });
  // One thread runs it, and keeps account of its arrays.
  AllocationCount& count = thread_allocations();
  const int64_t before = count.peak = count.live;
  run_function(graph, "main", args[0]);
  const size_t peak = static_cast<size_t>(count.peak - before) + executable.stats().argument_bytes;
  report(file, 1, json, eager, compiled, compile_seconds, executable, peak);
}

void run_sharded(const Graph& graph, const std::string& file, double seconds, bool json,
                 const CompileOptions& options) {
  Graph sharded = graph;
  run_propagation_pipeline(sharded, {});
  const Program program = partition(sharded, {.entry = "main", .mesh = nullptr});
  const double begin = now();
  Executable executable(program, options);
  const double compile_seconds = now() - begin;
  const Executor executor(program);
  const std::vector<Array> whole = arguments(graph);
  const std::vector<ValueId>& values = program.graph.region(program.entry_function().body).args;
  std::vector<std::vector<Array>> args(static_cast<size_t>(executor.num_devices())), results;
  for (size_t d = 0; d < args.size(); ++d)
    for (size_t i = 0; i < whole.size(); ++i)
      args[d].push_back(shard_of(whole[i], program.layout(values[i]), static_cast<int64_t>(d)));
  const Times compiled = measure(seconds, [&] { executable.run_shards_into(args, results); });
  const Times eager = measure(seconds / 2, [&] { executor.run_shards(args); });
  MemoryUse memory;
  executor.run_shards(args, {.memory = &memory});
  report(file, executor.num_devices(), json, eager, compiled, compile_seconds, executable,
         static_cast<size_t>(memory.peak()));
}

Graph load(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw UserError(file + ": cannot be opened");
  return parse_module(std::string(std::istreambuf_iterator<char>(in), {}), file);
}

}  // namespace

int main(int argc, char** argv) {
  std::string file;
  bool mesh = false, json = false;
  double seconds = 2;
  CompileOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json")
      json = true;
    else if (word == "--mesh" && i + 1 < argc)
      mesh = std::strcmp(argv[++i], "annotations") == 0;
    else if (word == "--seconds" && i + 1 < argc)
      seconds = std::stod(argv[++i]);
    else if (word == "--passes" && i + 1 < argc)
      options.passes = argv[++i];
    else
      file = word;
  }
  try {
    if (file.empty()) {
      file = CLEAVE_SOURCE_DIR "/examples/transformer.mlir";
      run_whole(load(file), "examples/transformer.mlir", seconds, json, options);
      run_sharded(load(file), "examples/transformer.mlir", seconds, json, options);
    } else {
      (mesh ? run_sharded : run_whole)(load(file), file, seconds, json, options);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
