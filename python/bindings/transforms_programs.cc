#include "cleave/autoshard/autoshard.h"
#include "cleave/autoshard/shard_map.h"
#include "cleave/core/error.h"
#include "cleave/transforms/compile.h"
#include "traces.h"

namespace cleave::python {
namespace {

using namespace nb::literals;
using autoshard_detail::PlannedFunction;
using compile_detail::Compiled;

// One run of a program at a time; callers wait without the lock of the interpreter.
struct PyProgram {
  std::shared_ptr<Compiled> compiled;
  std::shared_ptr<std::mutex> running = std::make_shared<std::mutex>();
};

PyProgram compile_of(const nb::callable& f, const nb::list& args, Names names,
                     std::vector<size_t> donate, std::string engine, int threads) {
  const Tensors leaves = leaves_of(args);
  Trace trace = traced(f, leaves, std::move(names));
  CompileOptions options;
  options.donate = std::move(donate);
  options.engine = std::move(engine);
  options.threads = threads;
  nb::gil_scoped_release released;
  return {std::make_shared<Compiled>(std::move(trace), leaves, options)};
}

nb::list run_program(PyProgram& self, const nb::list& args) {
  const Tensors leaves = leaves_of(args);
  const Tensors results = [&] {
    nb::gil_scoped_release released;
    std::lock_guard lock(*self.running);
    return self.compiled->run(leaves);
  }();
  return list_of(results);
}

void bind_compiled_functions(nb::module_& m) {
  nb::class_<PyProgram>(m, "Program", "A function that was compiled for certain arguments.")
      .def("fits", [](const PyProgram& self,
                      const nb::list& leaves) { return self.compiled->fits(leaves_of(leaves)); })
      .def("run", &run_program, "leaves"_a)
      .def("description", [](const PyProgram& self) { return self.compiled->description(); });
  m.def("compile", &compile_of, "f"_a, "leaves"_a, "names"_a, "donate"_a, "engine"_a, "threads"_a);
}

struct PyPlanned {
  std::shared_ptr<PlannedFunction> planned;
};

AutoshardOptions options_from(const nb::dict& given) {
  AutoshardOptions options;
  auto take = [&](const char* name, auto& to) {
    if (given.contains(name)) to = nb::cast<std::decay_t<decltype(to)>>(given[name]);
  };
  take("machine", options.machine);
  take("memory", options.memory);
  take("memory_share", options.memory_share);
  take("donate", options.donate);
  if (given.contains("objective"))
    options.objective = plan::objective_from_name(nb::cast<std::string>(given["objective"]));
  take("solver", options.solver);
  take("compiled", options.compiled);
  take("engine", options.engine);
  take("plan", options.plan);
  take("debug", options.debug);
  take("time_limit", options.time_limit);
  take("gap", options.gap);
  take("every_layout", options.every_layout);
  take("sub_axes", options.sub_axes);
  if (given.contains("trace")) options.trace = line_callback(given["trace"]);
  if (given.contains("pins"))
    for (nb::handle pin : given["pins"])
      options.pins.emplace_back(nb::cast<std::string>(pin[0]), *to_spec(pin[1]));
  return options;
}

// `mesh` is empty if it is chosen for so many devices.
PyPlanned plan_of(const nb::callable& f, const nb::list& args, Names names,
                  const std::vector<size_t>& counts, const std::string& mesh_text, int64_t devices,
                  nb::handle in, nb::handle out, const nb::dict& given) {
  AutoshardOptions options = options_from(given);
  const MeshPtr mesh = mesh_text.empty() ? nullptr : to_mesh(mesh_text);
  if (!mesh) autoshard_detail::check_devices(devices, options);
  const std::vector<Type> types = autoshard_detail::types_of(leaves_of(args));
  Trace trace = [&] {
    const autoshard_detail::WholeArguments whole(mesh);
    Tensors inside;
    for (const Type& type : types) inside.push_back(whole.stand_in(type));
    return traced(f, inside, std::move(names));
  }();
  // Specs of results are known once the function ran.
  const nb::object out_specs = out();
  autoshard_detail::GivenSpecs specs{to_specs(in), to_specs(out_specs)};
  std::vector<autoshard_detail::ArgumentTree> arguments;
  for (size_t count : counts) arguments.push_back({&typeid(nb::object), count});
  return interruptible([&](std::stop_token stop) {
    options.stop = stop;
    return PyPlanned{std::make_shared<PlannedFunction>(
        std::move(trace), mesh, mesh ? mesh->num_devices() : devices, std::move(arguments),
        std::move(specs), options)};
  });
}

template <typename F>
nb::list run_planned(const nb::list& args, const F& f) {
  const Tensors leaves = leaves_of(args);
  const Tensors results = [&] {
    nb::gil_scoped_release released;
    return f(leaves);
  }();
  return list_of(results);
}

// Whether arguments of the function, from number `first` on, have the types of these leaves.
bool takes(const PyPlanned& self, size_t first, const nb::list& list) {
  const std::vector<Type>& types = self.planned->graph().functions[0].arg_types;
  const Tensors leaves = leaves_of(list);
  for (size_t i = 0; i < leaves.size(); ++i)
    if (first + i >= types.size() || !(leaves[i].type() == types[first + i])) return false;
  return true;
}

// The leaves in the layouts that the plan has for arguments from number `first` on.
nb::list place(const PyPlanned& self, size_t first, const nb::list& list) {
  if (!takes(self, first, list))
    throw_user("place: the argument has other types: the plan is for other sizes");
  const plan::Plan& plan = self.planned->plan();
  const MeshPtr mesh = shared_mesh(*plan.mesh);
  return run_planned(list, [&](Tensors leaves) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      ShardingSpec spec = plan.values[first + i].spec;
      spec.mesh = mesh;
      leaves[i] = leaves[i].with_sharding(spec);
    }
    evaluate(leaves);
    return leaves;
  });
}

void bind_planned(nb::module_& m) {
  nb::class_<PyPlanned>(m, "PlannedFunction", "A function that was planned for certain arguments.")
      .def("run",
           [](const PyPlanned& self, const nb::list& args) {
             return run_planned(args, [&](const Tensors& x) { return self.planned->run(x); });
           })
      .def("replay",
           [](const PyPlanned& self, const nb::list& args) {
             return run_planned(args, [&](const Tensors& x) { return self.planned->replay(x); });
           })
      .def("takes", &takes, "first"_a, "leaves"_a)
      .def("place", &place, "first"_a, "leaves"_a)
      .def("explain", [](const PyPlanned& self) { return self.planned->explain(); })
      .def("verify",
           [](const PyPlanned& self) {
             nb::gil_scoped_release released;
             return self.planned->verify();
           })
      .def("description", [](const PyPlanned& self) { return self.planned->description(); })
      .def("module",
           [](const PyPlanned& self) {
             return PyModule{std::make_shared<const Graph>(self.planned->graph())};
           })
      .def("plan_json", [](const PyPlanned& self) { return to_json(self.planned->plan()); })
      .def("save_plan", [](const PyPlanned& self, const std::string& path) {
        plan::write_plan(self.planned->plan(), path);
      });
  m.def("plan_function", &plan_of, "f"_a, "leaves"_a, "names"_a, "counts"_a, "mesh"_a, "devices"_a,
        "in_specs"_a, "out_specs"_a, "options"_a);
  m.def("in_manual_scope", [] { return manual_scope() != nullptr; });
}

// `out` is called when the function ran, for the specs of its results.
nb::list shard_map_of(const nb::callable& f, const nb::list& args, Names names,
                      const std::string& mesh_text, nb::handle in_specs, nb::handle out,
                      bool manual, bool check) {
  using namespace shard_map_detail;
  const MeshPtr mesh = to_mesh(mesh_text);
  Tensors leaves = leaves_of(args), seen;
  const auto in = to_specs(in_specs);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!manual) leaves[i] = placed(leaves[i], in[i], mesh);
    seen.push_back(manual ? local_like(leaves[i], in[i], mesh) : leaves[i]);
  }
  if (!manual) {
    Trace trace = traced(f, seen, std::move(names));
    const auto specs = to_specs(nb::object(out()));
    return list_of(run_auto(std::move(trace), leaves, mesh, in, specs));
  }
  seen.insert(seen.begin(), local_position());
  names.insert(names.begin(), "position");
  const nb::object body = nb::cpp_function([&](const nb::list& inside) {
    Tensors parts = leaves_of(inside);
    const ManualScope scope(mesh, parts.front());
    parts.erase(parts.begin());
    return nb::object(f(list_of(parts)));
  });
  const Trace trace = traced(nb::borrow<nb::callable>(body), seen, std::move(names));
  const auto specs = to_specs(nb::object(out()));
  return list_of(run_manual(trace, leaves, in, specs, mesh, check));
}

}  // namespace

void bind_programs(nb::module_& m) {
  bind_compiled_functions(m);
  bind_planned(m);
  m.def("shard_map", &shard_map_of, "f"_a, "leaves"_a, "names"_a, "mesh"_a, "in_specs"_a,
        "out_specs"_a, "manual"_a, "check"_a);
}

}  // namespace cleave::python
