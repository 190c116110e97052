#include "cleave/cli/sharded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cleave/analyze/program_memory.h"
#include "cleave/cli/ranks.h"
#include "cleave/cli/xla_run.h"
#include "cleave/compile/executable.h"
#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/core/units.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/names.h"
#include "cleave/plan/numbered_program.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/compare_runs.h"
#include "cleave/runtime/executor.h"
#include "cleave/spmd/annotated_mesh.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave::cli {
namespace {

class Clock {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

uint64_t seed_of(const std::string& shard) {
  const auto seed = number_of<uint64_t>(shard.substr(std::string("random:").size()));
  if (!seed) throw_user("--shard {}: the seed must be a number, such as random:1", shard);
  return *seed;
}

MeshPtr mesh_of(const Graph& graph, const ShardingOptions& options) {
  if (!options.mesh.empty()) {
    Mesh mesh = parse_mesh(options.mesh);
    if (mesh.name.empty()) mesh.name = "mesh";
    // Every device is made, with its own code; a slip of the hand should not take hours.
    constexpr int64_t kMostDevices = 4096;
    if (mesh.num_devices() > kMostDevices)
      throw_user("--mesh {}: {} devices; at most {} are run. cleave plan takes larger meshes",
                 options.mesh, mesh.num_devices(), kMostDevices);
    return std::make_shared<const Mesh>(std::move(mesh));
  }
  for (const MeshPtr& mesh : graph.meshes)
    if (!mesh->axes.empty()) return mesh;
  throw_user("the module has no mesh; give one, such as --mesh \"x=2,y=4\"");
}

void print_memory(const Executor& executor, const MemoryUse& measured) {
  const Program& program = executor.program();
  const int64_t fullest = measured.fullest_device();
  const NodeId at = measured.peak_at[fullest];
  const Graph local = instantiate(program, fullest).graph;
  const analyze::ProgramMemory predicted = analyze::program_memory(program);
  const double error = 100.0 * static_cast<double>(predicted.peak - measured.peak()) /
                       static_cast<double>(std::max<int64_t>(1, measured.peak()));
  fmt::print(stderr,
             "memory of a device: measured {} on device {} at {}, predicted {} ({:+.1f}%)\n{}",
             bytes_text(measured.peak()), fullest, at.valid() ? local.node(at).name() : "the start",
             bytes_text(predicted.peak), error, to_string(predicted, program, 5));
}

void print_memory(const Executable& executable, const MemoryUse& measured) {
  const int64_t fullest = measured.fullest_device();
  const int64_t predicted = executable.memory_bytes(fullest);
  const analyze::ProgramMemory op_by_op = analyze::program_memory(*executable.program());
  const double error = 100.0 * static_cast<double>(predicted - measured.peak()) /
                       static_cast<double>(std::max<int64_t>(1, measured.peak()));
  fmt::print(stderr,
             "memory of a device: measured {} on device {}, predicted {} ({:+.1f}%); op by op it "
             "would be {}\n",
             bytes_text(measured.peak()), fullest, bytes_text(predicted), error,
             bytes_text(op_by_op.peak));
}

void print_stats(const Program& program, const CommLog& log, double prepared, double executed) {
  fmt::print(stderr, "{} devices, {} nodes; prepared in {:.1f} ms, executed in {:.1f} ms\n",
             program.mesh->num_devices(), program.graph.num_nodes(), prepared, executed);
  fmt::print(stderr, "{} collectives, at most {} received by a device\n{}", log.count(),
             bytes_text(log.bytes()), to_string(log));
}

// `run` is what gave the results: "the sharded run".
void verify_results(const Graph& graph, const std::string& entry, const std::vector<Array>& args,
                    const std::vector<Array>& results, const ShardingOptions& options,
                    std::string_view run) {
  const Clock clock;
  const std::vector<Array> expected = run_verified(graph, entry, args);
  const double milliseconds = clock.milliseconds();
  const RunComparison comparison =
      compare_runs(graph, entry, args, expected, results, {.narrow_sums = !options.wide_sums});
  if (!comparison.same())
    throw_user("{} gives other numbers than {}one device: {}", run,
               options.uses_xla() ? "Cleave's own engine on " : "",
               fmt::join(comparison.differences, "; "));
  fmt::print(
      stderr,
      "verified: {} results are the same on one device{} ({:.1f} ms); largest difference {:.3g}, "
      "largest magnitude {:.3g}\n",
      results.size(), options.uses_xla() ? " of Cleave's own engine" : "", milliseconds,
      comparison.max_difference, comparison.scale);
  if (comparison.unsteady > 0) fmt::print(stderr, "  {}\n", unsteady_text(comparison));
}

// Every node says of which op and change of the plan it is, for the timeline.
Program planned_program(const Graph& graph, const plan::Plan& plan) {
  const MachineProfile profile = shared_by(load_profile(plan.machine), plan.mesh->num_devices());
  const Graph flat = plan::flatten(graph, plan.entry, profile);
  return plan::partition_numbered(plan::bind(plan, flat), profile);
}

Program sharded_program(const Graph& graph, const std::string& entry,
                        const ShardingOptions& options) {
  if (options.plan) return planned_program(graph, *options.plan);
  Graph sharded = graph;
  const std::string shard = options.shard.empty() ? "annotations" : options.shard;
  MeshPtr mesh;
  if (shard == "annotations") {
    if (!options.mesh.empty() || graph.meshes.empty()) mesh = mesh_of(graph, options);
    if (mesh)
      require_annotated_mesh(
          graph, [&](const Mesh& own) { return own.same_devices(*mesh); },
          "--mesh " + to_string(*mesh),
          "leave --mesh out, or say --shard replicated or random:SEED to drop them");
    run_propagation_pipeline(sharded, {.runs_along = runs_along, .verified = true});
  } else if (shard == "replicated" || shard.starts_with("random:")) {
    mesh = mesh_of(graph, options);
    drop_annotations(sharded, *mesh);
    sharded.meshes = {mesh};
    if (shard != "replicated") shard_randomly(sharded, entry, mesh, seed_of(shard));
  } else {
    throw_user("--shard {}: say annotations, replicated or random:SEED", shard);
  }
  return partition(
      sharded, {.entry = entry, .mesh = mesh, .wide_sums = options.wide_sums, .verified = true});
}

}  // namespace

std::vector<Array> run_whole(const Graph& graph, const std::string& entry,
                             const std::vector<Array>& args, const ShardingOptions& options,
                             Observer* observer) {
  if (options.uses_xla()) {
    std::vector<Array> results = run_on_xla(graph, entry, args, options);
    if (options.verify && speaks()) verify_results(graph, entry, args, results, options, "XLA");
    return results;
  }
  if (!options.compile) return run_verified(graph, entry, args, observer);
  check_arguments(graph, entry, args);
  Executable executable(graph, entry, {.passes = options.passes, .verified = true});
  std::vector<Array> results = executable.run(args, {.observer = observer});
  if (options.describe) fmt::print(stderr, "{}", describe(executable));
  return results;
}

std::vector<Array> run_sharded(const Graph& graph, const std::string& entry,
                               const std::vector<Array>& args, const ShardingOptions& options,
                               Observer* observer) {
  const Clock clock;
  Program program = sharded_program(graph, entry, options);
  if (options.uses_xla()) {
    std::vector<Array> results = run_on_xla(program, args, options);
    if (options.verify && speaks())
      verify_results(graph, entry, args, results, options, "the run sharded by XLA");
    return results;
  }
  CommLog log;
  std::vector<Array> results;
  if (options.compile && !options.plan) {
    Executable executable(std::move(program), {.passes = options.passes});
    const double prepared = clock.milliseconds();
    MemoryUse memory;
    results = executable.run(
        args, {.log = &log, .observer = observer, .memory = options.describe ? &memory : nullptr});
    if (!speaks()) return results;
    if (options.communication)
      print_stats(*executable.program(), log, prepared, clock.milliseconds() - prepared);
    if (options.describe) {
      fmt::print(stderr, "{}", describe(executable));
      if (executable.is_compiled()) print_memory(executable, memory);
    }
  } else {
    const Executor executor(std::move(program));
    const double prepared = clock.milliseconds();
    MemoryUse memory;
    results = executor.run(
        args, {.log = &log, .observer = observer, .memory = options.stats ? &memory : nullptr});
    if (!speaks()) return results;
    if (options.communication)
      print_stats(executor.program(), log, prepared, clock.milliseconds() - prepared);
    if (options.stats) print_memory(executor, memory);
  }
  if (options.verify) verify_results(graph, entry, args, results, options, "the sharded run");
  return results;
}

}  // namespace cleave::cli
