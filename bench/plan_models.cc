// Plans a train step (examples/plan_models.py writes some) and compares with plans made by hand:
//
//   bench_plan_models llama.mlir --mesh data=8,model=8 [--machine h100] [--memory 80GiB] [--apart]
//       [--alone] [--trace]
//
// Hand-made plans are layouts of the arguments. Each is priced twice by the planner's own tables:
// with the rest by propagation, and with the rest searched. A ratio below 1 would mean that the
// planner missed something.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/plan/heuristic.h"

#ifdef CLEAVE_MIMALLOC
#include <mimalloc.h>
#endif

using namespace cleave;
using namespace cleave::plan;

namespace {

// Of all threads.
double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The width of the model: the size of its vectors.
int64_t width_of(const Graph& graph, const std::vector<ValueId>& args) {
  for (ValueId arg : args)
    if (graph.type(arg).rank() == 1) return graph.type(arg).shape[0];
  return 0;
}

enum class Style { Megatron, Fsdp, Combined };

// The axes but the last are for data, the last one is for the model.
std::vector<Pin> pins_of(const Graph& graph, const MeshPtr& mesh, Style style) {
  const Graph flat = flatten(graph, "main");
  const Names names = name_everything(flat, "main");
  const std::vector<ValueId>& args = flat.region(flat.find_function("main")->body).args;
  const int64_t width = width_of(flat, args);
  AxisList data, model, all;
  for (size_t a = 0; a < mesh->axes.size(); ++a) {
    const AxisRef ref = whole_axis(*mesh, static_cast<int>(a));
    (a + 1 < mesh->axes.size() ? data : model).push_back(ref);
    all.push_back(ref);
  }
  std::vector<Pin> pins;
  for (ValueId arg : args) {
    const Type& type = flat.type(arg);
    ShardingSpec spec = ShardingSpec::closed_replicated(mesh, type.rank());
    if (type.rank() == 0) continue;
    auto put = [&](size_t d, const AxisList& axes) {
      if (type.shape[d] % total_size(axes) == 0) spec.dims[d].axes = axes;
    };
    if (type.dtype == DType::I32) {
      put(0, style == Style::Fsdp ? all : data);
    } else if (type.rank() > 1) {
      size_t wide = 0;
      while (wide < type.rank() && type.shape[wide] != width) ++wide;
      // Columns where the width comes first, rows where it comes last, experts first of all.
      const size_t split = wide == 0 ? 1 : 0;
      if (style == Style::Fsdp) {
        size_t largest = 0;
        for (size_t d = 1; d < type.rank(); ++d)
          if (type.shape[d] > type.shape[largest]) largest = d;
        put(largest, all);
      } else {
        put(split, model);
        if (style == Style::Combined && wide < type.rank() && wide != split) put(wide, data);
      }
    }
    pins.push_back({names.values[arg.index], spec, names.values[arg.index]});
  }
  return pins;
}

std::string outcome(const PlannerResult& result, double planned) {
  if (!result.plan) return result.reason;
  const Plan& p = *result.plan;
  return fmt::format("{:9.2f} ms  x{:.3f}  {:6.2f} GiB", p.totals.step_seconds * 1e3,
                     p.totals.step_seconds / planned,
                     static_cast<double>(p.memory.peak) / (1 << 30));
}

}  // namespace

int main(int argc, char** argv) {
#ifdef CLEAVE_MIMALLOC
  mi_option_set(mi_option_decommit_delay, 1000);  // as the command does
#endif
  CLI::App app("Plans against plans made by hand");
  std::string file, mesh_text = "data=8,model=8", machine = "h100";
  double gib = 80, time = 15;
  int threads = 2;
  bool apart = false, alone = false, trace = false;
  app.add_option("file", file)->required();
  app.add_option("--mesh", mesh_text);
  app.add_option("--machine", machine);
  app.add_option("--memory-gib", gib);
  app.add_option("--time", time);
  app.add_option("--threads", threads);
  app.add_flag("--apart", apart);
  app.add_flag("--alone", alone, "without the plans made by hand");
  app.add_flag("--trace", trace, "what the planner does, line by line");
  CLI11_PARSE(app, argc, argv);
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  const double start = now();
  const Graph graph = parse_module(text.str(), file);
  const double read = now() - start;
  const MachineProfile profile = load_profile(machine);
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh(mesh_text));
  options.profile = &profile;
  options.memory = static_cast<int64_t>(gib * (1 << 30));
  options.apart = apart;
  options.time_limit = time;
  options.threads = threads;
  const double began = now();
  if (trace)
    options.trace = [began](const std::string& line) {
      fmt::print(stderr, "{:.3f} {}\n", now() - began, line);
    };
  const double before = processor_seconds();
  const PlannerResult best = make_plan(graph, options);
  const double worked = processor_seconds() - before;
  if (!best.plan) {
    fmt::print("{}\n", best.reason);
    return 1;
  }
  const double planned = best.plan->totals.step_seconds;
  fmt::print(
      "{} on {}: read in {:.2f} s; planned in {:.2f} s, {:.2f} s of processors ({:.2f} "
      "formulating, {:.2f} pricing, {:.2f} solving); gap {:.3f}% of the additive model, {:.1f}% of "
      "the step\n",
      file, mesh_text, read, best.stats.total_seconds, worked, best.stats.formulate_seconds,
      best.stats.table_seconds, best.stats.solve_seconds, 100 * best.plan->bound.model_gap,
      100 * best.plan->bound.step_gap);
  fmt::print("{:<34}{}\n", "planned", outcome(best, planned));
  if (alone) return 0;
  options.trace = {};
  const std::pair<const char*, Style> styles[] = {
      {"megatron", Style::Megatron}, {"fsdp", Style::Fsdp}, {"both", Style::Combined}};
  for (const auto& [name, style] : styles) {
    PlannerOptions hand = options;
    hand.memory.reset();
    hand.pins = pins_of(graph, options.mesh, style);
    fmt::print("{:<34}{}\n", fmt::format("{}, rest propagated", name),
               outcome(plan_by_propagation(graph, hand), planned));
    fmt::print("{:<34}{}\n", fmt::format("{}, rest searched", name),
               outcome(make_plan(graph, hand), planned));
  }
  const PlannerResult heuristic = plan_by_heuristic(graph, options);
  fmt::print("{:<34}{}\n", "heuristic", outcome(heuristic, planned));
  return 0;
}
