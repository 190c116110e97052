// Cleave's own CPU engine and XLA's, on the same programs: train steps of models by name, whole on
// one device, and partitioned over eight as their annotations say.
//   bench_engine_speed [PLUGIN [STEPS]]
// Both take their arguments from the host and give results back to it. In turns; medians.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "cleave/compile/executable.h"
#include "cleave/models/registry.h"
#include "cleave/pjrt/engine.h"
#include "cleave/pjrt/find_plugins.h"
#include "cleave/rules/pipelines.h"
#include "cleave/spmd/partition.h"

namespace {

using namespace cleave;

double seconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void compare(const std::string& name, const std::string& mesh_text, const std::string& engine,
             int steps) {
  Mesh mesh = parse_mesh(mesh_text.empty() ? "data=1" : mesh_text);
  mesh.name = "mesh";
  const models::BuiltModel model = models::build_model(name, mesh_text.empty() ? nullptr : &mesh);
  std::vector<Array> args;
  for (const Tensor& argument : model.arguments) args.push_back(argument.to_host());
  std::unique_ptr<Executable> own;
  std::unique_ptr<pjrt::TensorProgram> xla;
  if (mesh_text.empty()) {
    own = std::make_unique<Executable>(model.graph, "main");
    xla = pjrt::whole_program(engine, model.graph, "main");
  } else {
    Graph graph = model.graph;
    run_propagation_pipeline(graph, {.runs_along = runs_along});
    Program program = partition(graph, {.entry = "main"});
    xla = pjrt::sharded_program(engine, program);
    own = std::make_unique<Executable>(std::move(program));
  }
  std::vector<double> ours, theirs;
  for (int step = 0; step < steps + 2; ++step) {
    const double a = seconds([&] { own->run(args); });
    const double b = seconds([&] { xla->run(args); });
    if (step < 2) continue;
    ours.push_back(a);
    theirs.push_back(b);
  }
  fmt::print("{:<58} {:<16} {:9.2f} ms  {:9.2f} ms  {:.2f}\n", name, mesh_text, 1e3 * median(ours),
             1e3 * median(theirs), median(theirs) / median(ours));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string plugin = argc > 1 ? argv[1] : "";
  const int steps = argc > 2 ? std::max(1, std::atoi(argv[2])) : 9;
  try {
    const std::string path = pjrt::plugin_path(plugin);
    const std::string engine = "xla:" + path;
    fmt::print("{:<58} {:<16} {:>12}  {:>12}  {}\n", "step", "mesh", "Cleave", "XLA",
               "XLA over Cleave");
    for (const char* name : {"model:mlp?step=train", "model:gpt?step=train&layers=4&d=256",
                             "model:moe?step=train", "model:resnet?step=train"}) {
      compare(name, "", engine, steps);
      compare(std::string(name) + "&sharding=mixed", "data=2,model=4", engine, steps);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
