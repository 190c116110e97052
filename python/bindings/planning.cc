#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cleave/analyze/asked_collectives.h"
#include "cleave/analyze/xla_cpu_memory.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/plan/export.h"
#include "cleave/plan/figures.h"
#include "cleave/plan/infeasible.h"
#include "cleave/plan/jax_forecast.h"
#include "cleave/plan/mesh_search.h"
#include "cleave/plan/predicted_memory.h"
#include "cleave/plan/solvers.h"
#include "cleave/plan/verify_on_xla.h"
#include "cleave/plan/verify_plan.h"
#include "cleave/solve/solve.h"
#include "cleave/spmd/single_program.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

// A plan with the module that it is of, and the machine that it is for.
struct PyPlan {
  plan::Plan plan;
  std::shared_ptr<const Graph> graph;
  MachineProfile profile;
  double seconds = 0;  // that planning took; 0 if it was read from a file

  MachineProfile shared() const { return shared_by(profile, plan.mesh->num_devices()); }
};

MeshPtr mesh_of(const std::string& text) {
  Mesh mesh = parse_mesh(text);
  normalize_and_verify(mesh);
  return std::make_shared<const Mesh>(std::move(mesh));
}

struct PlanArguments {
  std::string mesh;
  int64_t devices;
  std::string machine, memory;
  std::optional<double> memory_share;
  std::vector<std::string> pins;
  std::string entry, solver, objective;
  double time_limit, gap;
  int64_t trips;
  bool every_layout, sub_axes, apart, by_effort;
  std::string borders;
  uint64_t seed;
};

plan::PlannerOptions options_of(const PlanArguments& given, const MachineProfile& profile) {
  plan::PlannerOptions how;
  if (!given.mesh.empty()) how.mesh = mesh_of(given.mesh);
  how.profile = &profile;
  how.machine = given.machine;
  how.memory_share = given.memory_share.value_or(profile.executor.memory_share);
  if (!(how.memory_share > 0 && how.memory_share <= 1))
    throw_user("memory_share {}: it must be above 0 and at most 1", how.memory_share);
  const double bytes =
      given.memory.empty() ? profile.memory_bytes : static_cast<double>(parse_bytes(given.memory));
  how.memory = static_cast<int64_t>(how.memory_share * bytes);
  for (const std::string& pin : given.pins) {
    if (!how.mesh) throw_user("pins speak of axes of a mesh; give a mesh instead of devices");
    how.pins.push_back(plan::parse_pin(pin, how.mesh));
  }
  how.entry = given.entry;
  how.objective = plan::objective_from_name(given.objective);
  how.every_layout = given.every_layout;
  how.sub_axes = given.sub_axes;
  how.apart = given.apart;
  how.borders = plan::borders_from_name(given.borders);
  if (!(given.time_limit > 0))
    throw_user("time_limit {}: it must be more than 0 s", given.time_limit);
  if (!(given.gap >= 0)) throw_user("gap {}: it must be 0 or more", given.gap);
  how.time_limit = given.time_limit;
  how.gap = given.gap;
  // Processes that plan for themselves must find the same plan: no clock may end the search.
  if (given.by_effort) {
    how.effort = solver::default_effort(given.time_limit);
    how.time_limit = 1e6;
  }
  how.trips = given.trips;
  how.seed = given.seed;
  return how;
}

// The fastest plan over all meshes of so many devices.
plan::PlannerResult plan_for_any_mesh(const Graph& graph, const plan::PlannerOptions& how,
                                      int64_t devices) {
  const std::vector<int64_t> limits{*how.memory};
  std::vector<plan::MeshCandidate> candidates = plan::search_meshes(
      graph, plan::mesh_shapes(devices, 2), limits, how,
      [&](const plan::MeshCandidate& c, size_t done, size_t all) {
        if (how.trace) how.trace(fmt::format("{} of {} meshes: {}", done, all, to_string(*c.mesh)));
      });
  const int best = plan::fastest_by_limit(candidates, limits)[0];
  if (best >= 0) return std::move(candidates[best].result);
  plan::PlannerResult none;
  none.reason = fmt::format("no mesh of {} devices has a plan within {}", devices,
                            bytes_text(static_cast<double>(limits[0]), BytesStyle::Table));
  return none;
}

[[noreturn]] void throw_why_not(const Graph& graph, const plan::PlannerOptions& how,
                                const std::string& solver, const plan::PlannerResult& result) {
  if (result.cut)
    throw_user(
        "{}; the clock ended the search after {} s, without a proof that there is none: "
        "give it more time_limit",
        result.reason, how.time_limit);
  if (how.mesh && solver == "cleave") throw_user("{}", plan::explain_infeasible(graph, how).line());
  throw_user("{}", result.reason);
}

PyPlan make_plan(const PyModule& module, PlanArguments given, nb::object trace) {
  auto tell = line_callback(std::move(trace));
  return interruptible([&](std::stop_token stop) {
    PyPlan made{{}, module.graph, load_profile(given.machine)};
    plan::PlannerOptions how = options_of(given, made.profile);
    how.stop = stop;
    how.trace = tell;
    plan::PlannerResult result = given.devices > 0
                                     ? plan_for_any_mesh(*module.graph, how, given.devices)
                                     : plan::plan_by(given.solver, *module.graph, how);
    if (!result.plan) throw_why_not(*module.graph, how, given.solver, result);
    made.plan = std::move(*result.plan);
    made.seconds = result.stats.total_seconds;
    if (!stop.stop_requested()) {
      made.plan.figures = plan::plan_figures(made.plan, *module.graph, made.profile);
      if (auto note = plan::note_of_memory(made.plan, *module.graph, made.profile))
        made.plan.notes.push_back(std::move(*note));
    }
    return made;
  });
}

PyPlan plan_of(plan::Plan plan, const PyModule& module) {
  PyPlan made{std::move(plan), module.graph, {}};
  made.profile = load_profile(made.plan.machine);
  plan::border_layouts(made.plan, *module.graph);  // refuses a plan of another module
  return made;
}

std::string exported(const PyPlan& self, const std::string& form) {
  nb::gil_scoped_release released;
  return plan::export_as(form, self.plan, *self.graph, self.profile);
}

using Dims = std::vector<std::vector<std::string>>;
Dims dims_of(const ShardingSpec& spec) {
  Dims dims;
  for (const DimSpec& dim : spec.dims) {
    dims.emplace_back();
    for (const AxisRef& ref : dim.axes) dims.back().push_back(spec.mesh->axes[ref.axis].name);
  }
  return dims;
}

// The mesh, and for arguments and results: name, axes of each dimension, what is uneven. Axes that
// do not divide their dimension are left out unless `with_uneven`.
using Border = std::tuple<std::string, Dims, std::string>;
std::tuple<std::vector<std::pair<std::string, int64_t>>, std::vector<Border>, std::vector<Border>>
borders(const PyPlan& self, bool with_uneven) {
  const plan::BorderLayouts all = plan::border_layouts(self.plan, *self.graph);
  std::vector<std::pair<std::string, int64_t>> mesh;
  for (const MeshAxis& axis : all.mesh->axes) mesh.emplace_back(axis.name, axis.size);
  auto list = [&](const std::vector<plan::BorderLayout>& layouts) {
    std::vector<Border> made;
    for (const plan::BorderLayout& b : layouts)
      made.emplace_back(b.name, dims_of(with_uneven ? b.planned : b.spec), b.uneven);
    return made;
  };
  return {mesh, list(all.arguments), list(all.results)};
}

// What the program asks an engine for, by kind: executions, bytes that one device receives, those
// of them that a compiler for CPUs widens; and whether shards are uneven, which travel padded.
using AskedRow = std::tuple<std::string, double, double, double>;
std::pair<std::vector<AskedRow>, bool> asked(const PyPlan& self) {
  nb::gil_scoped_release released;
  const Program program = plan::partition_planned(self.plan, *self.graph, self.shared());
  const SingleProgram single = single_program(program);
  std::vector<AskedRow> rows;
  for (const analyze::AskedCollective& one : analyze::asked_collectives(
           single.graph, single.entry, self.plan.mesh->num_devices(), self.plan.trips))
    rows.emplace_back(one.kind, one.executions, one.received_bytes, one.narrow_bytes);
  return {rows, plan::has_uneven_values(program)};
}

// What a device holds if XLA compiles the plan for a platform.
std::optional<int64_t> predicted_memory(const PyPlan& self, const std::string& platform,
                                        const std::string& compiled_text) {
  nb::gil_scoped_release released;
  return plan::predicted_memory(self.plan, *self.graph, self.shared(), platform,
                                analyze::has_library_fusions(compiled_text));
}

// The report, and whether all is well.
std::pair<std::string, bool> verify(const PyPlan& self, const std::string& engine, uint64_t seed,
                                    bool as_is) {
  return interruptible([&](std::stop_token) {
    plan::VerifyPlanOptions options;
    options.keep_sizes = as_is;
    options.seed = seed;
    auto told = [](const auto& result) { return std::pair(to_string(result), result.good()); };
    if (engine == "cleave")
      return told(plan::verify_plan(self.plan, *self.graph, self.shared(), options));
    return told(plan::verify_on_xla(self.plan, *self.graph, self.shared(), engine, options));
  });
}

void bind_plan_class(nb::module_& m) {
  nb::class_<PyPlan>(m, "Plan", "The layouts of a module, what they cost and what bounds it.")
      .def("json", [](const PyPlan& self) { return to_json(self.plan); })
      .def(
          "save",
          [](const PyPlan& self, const std::string& path) { plan::write_plan(self.plan, path); },
          "path"_a)
      .def_prop_ro(
          "seconds", [](const PyPlan& self) { return self.seconds; },
          "What planning took; 0 if the plan was read.")
      .def_prop_ro("machine", [](const PyPlan& self) { return self.plan.machine; })
      .def_prop_ro("fingerprint", [](const PyPlan& self) { return self.plan.fingerprint; })
      .def("summary", [](const PyPlan& self) { return plan::explain_totals(self.plan); })
      .def("figures",
           [](const PyPlan& self) {
             return self.plan.figures ? to_string(*self.plan.figures) : std::string();
           })
      .def("explain",
           [](const PyPlan& self) {
             nb::gil_scoped_release released;
             return plan::explain_plan(self.plan, *self.graph, self.profile);
           })
      .def(
          "explain_op",
          [](const PyPlan& self, const std::string& op, size_t most) {
            nb::gil_scoped_release released;
            return plan::explain_op(self.plan, *self.graph, self.profile, op, most);
          },
          "op"_a, "most"_a = 8)
      .def("export", &exported, "form"_a = "manual")
      .def("forecast",
           [](const PyPlan& self) {
             nb::gil_scoped_release released;
             const auto forecast = plan::forecast_of_jax(self.plan, *self.graph, self.shared());
             return std::pair(to_string(forecast), forecast.is_the_plan());
           })
      .def("borders", &borders, "with_uneven"_a = false)
      .def("asked", &asked)
      .def("predicted_memory", &predicted_memory, "platform"_a, "compiled_text"_a,
           "Bytes of a device if XLA compiles the plan for \"cpu\", \"gpu\" or \"tpu\", in the way "
           "of "
           "the version that made the text; None for other platforms.")
      .def("verify", &verify, "engine"_a = "cleave", "seed"_a = 1, "as_is"_a = false)
      .def(
          "diff",
          [](const PyPlan& self, const PyPlan& other) { return plan::diff(self.plan, other.plan); },
          "other"_a);
}

}  // namespace

void bind_planning(nb::module_& m) {
  bind_plan_class(m);
  m.def(
      "make_plan",
      [](const PyModule& module, std::string mesh, int64_t devices, std::string machine,
         std::string memory, std::optional<double> memory_share, std::vector<std::string> pins,
         std::string entry, std::string solver, std::string objective, double time_limit,
         double gap, int64_t trips, bool every_layout, bool sub_axes, bool apart, bool by_effort,
         std::string borders, uint64_t seed, nb::object trace) {
        return make_plan(
            module,
            {std::move(mesh), devices, std::move(machine), std::move(memory), memory_share,
             std::move(pins), std::move(entry), std::move(solver), std::move(objective), time_limit,
             gap, trips, every_layout, sub_axes, apart, by_effort, std::move(borders), seed},
            std::move(trace));
      },
      "module"_a, nb::kw_only(), "mesh"_a = "", "devices"_a = 0, "machine"_a = "default",
      "memory"_a = "", "memory_share"_a = nb::none(), "pins"_a = std::vector<std::string>(),
      "entry"_a = "main", "solver"_a = "cleave", "objective"_a = "step", "time_limit"_a = 10.0,
      "gap"_a = 0.01, "trips"_a = 1, "every_layout"_a = false, "sub_axes"_a = false,
      "apart"_a = false, "by_effort"_a = false, "borders"_a = "any", "seed"_a = 0,
      "trace"_a = nb::none());
  m.def(
      "plan_from_json",
      [](const std::string& text, const PyModule& module) {
        return plan_of(plan::plan_from_json(text), module);
      },
      "text"_a, "module"_a);
  m.def(
      "read_plan",
      [](const std::string& path, const PyModule& module) {
        return plan_of(plan::read_plan(path), module);
      },
      "path"_a, "module"_a);
}

}  // namespace cleave::python
