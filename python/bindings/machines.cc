#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "algebra.h"
#include "cleave/core/error.h"
#include "cleave/core/output_file.h"
#include "cleave/core/shard_layout.h"
#include "cleave/core/units.h"
#include "cleave/machine/profile.h"
#include "cleave/reshard/reshard.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

// A profile with the name or the path that plans remember it by; empty if it has none yet.
struct PyMachine {
  MachineProfile profile;
  std::string source;
};

PyMachine machine_of(nb::handle object) {
  if (nb::isinstance<PyMachine>(object)) return nb::cast<PyMachine>(object);
  const std::string name = text_of_object(object);
  return {load_profile(name), name};
}

void bind_machine(nb::module_& m) {
  nb::class_<PyMachine>(m, "Machine",
                        "What the hardware can do: rates, memory, collectives, the executor.")
      .def_static(
          "load", [](nb::handle source) { return machine_of(source); }, "source"_a,
          "A built-in machine by name, or a JSON file.")
      .def_static(
          "parse",
          [](const std::string& text) {
            return PyMachine{profile_from_json(text), ""};
          },
          "text"_a, "From JSON; what it leaves out is that of its \"base\".")
      .def_prop_ro("name", [](const PyMachine& self) { return self.profile.name; })
      .def_prop_ro(
          "source", [](const PyMachine& self) { return self.source; },
          "The name or the path that plans remember it by; empty for one that was not saved.")
      .def_prop_ro("devices_per_node",
                   [](const PyMachine& self) { return self.profile.devices_per_node; })
      .def_prop_ro("memory_bytes", [](const PyMachine& self) { return self.profile.memory_bytes; })
      .def("json", [](const PyMachine& self) { return to_json(self.profile); })
      .def(
          "save",
          [](PyMachine& self, const std::string& path) {
            write_file(path, to_json(self.profile));
            self.source = path;
          },
          "path"_a, "Writes the JSON that plan(machine=path) reads.")
      .def("__eq__",
           [](const PyMachine& self, nb::handle other) {
             return nb::isinstance<PyMachine>(other) &&
                    self.profile == nb::cast<const PyMachine&>(other).profile;
           })
      .def("__hash__",
           [](const PyMachine& self) { return std::hash<std::string>()(self.profile.name); })
      .def("__str__",
           [](const PyMachine& self) {
             return self.source.empty() ? self.profile.name : self.source;
           })
      .def("__repr__", [](const PyMachine& self) {
        return fmt::format("<Machine {}: {}, {} devices per node>", self.profile.name,
                           bytes_text(self.profile.memory_bytes, BytesStyle::Limit),
                           self.profile.devices_per_node);
      });
  m.def(
      "machines", [] { return builtin_profile_names(); }, "The names of the built-in machines.");
}

// kind, what it does, axes, the layout after it, bytes, seconds
using StepTuple = std::tuple<std::string, std::string, std::string, ShardingSpec, int64_t, double>;

// Steps that the caller gives as pairs of a kind and a layout, priced and not searched.
ReshardPlan priced(const std::vector<std::pair<std::string, nb::object>>& via,
                   const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                   DType dtype, const MachineProfile& profile) {
  ReshardPlan plan;
  ShardingSpec before = from;
  for (const auto& [word, layout] : via) {
    const auto kind = step_kind_from_name(word);
    if (!kind) throw_user("via: '{}' is no step; all_gather is one", word);
    const ShardingSpec after = sharding_of_object(layout, before.mesh, shape.size());
    plan.steps.push_back(make_step(*kind, before, after, shape, dtype, profile));
    plan.seconds += plan.steps.back().seconds;
    plan.bytes += plan.steps.back().bytes;
    const int64_t held =
        num_elements(local_shape(before, shape)) + num_elements(local_shape(after, shape));
    plan.peak_bytes = std::max(plan.peak_bytes, held * byte_size(dtype));
    before = after;
  }
  if (!before.same_layout(to) && !(before.is_fully_replicated() && to.is_fully_replicated()))
    throw_user("via ends at {} and not at {}", to_string(before), to_string(to));
  return plan;
}

std::tuple<std::vector<StepTuple>, double, int64_t, int64_t, ShardingSpec> reshard(
    nb::handle mesh, nb::handle shape, nb::handle dtype, nb::handle source, nb::handle target,
    nb::handle machine, const std::string& memory, nb::handle to_mesh,
    const std::vector<std::pair<std::string, nb::object>>& via) {
  const Shape whole = shape_of_object(shape);
  const DType element = dtype_of_object(dtype);
  const MeshPtr on = mesh_of_object(mesh);
  const ShardingSpec from = sharding_of_object(source, on, whole.size());
  const ShardingSpec to =
      sharding_of_object(target, to_mesh.is_none() ? on : mesh_of_object(to_mesh), whole.size());
  const MachineProfile profile = machine_of(machine).profile;
  ReshardOptions limits;
  if (!memory.empty()) limits.memory = parse_bytes(memory);
  verify(from, whole);
  verify(to, whole);
  const ReshardPlan plan = via.empty() ? plan_reshard(from, to, whole, element, profile, limits)
                                       : priced(via, from, to, whole, element, profile);
  std::vector<StepTuple> steps;
  for (const ReshardStep& step : plan.steps) {
    const std::string text = to_string(step);
    steps.emplace_back(std::string(name(step.kind)), text.substr(0, text.find(" -> [")),
                       to_string(step.axes, *step.after.mesh), step.after, step.bytes,
                       step.seconds);
  }
  return {std::move(steps), plan.seconds, plan.bytes, plan.peak_bytes, from};
}

}  // namespace

void bind_machines(nb::module_& m) {
  bind_machine(m);
  m.def("reshard", &reshard, "mesh"_a, "shape"_a, "dtype"_a, "source"_a.none(), "target"_a.none(),
        "machine"_a, "memory"_a, "to_mesh"_a.none(), "via"_a);
  m.def("seconds_text", &seconds_text, "seconds"_a, "decimals"_a = 2, "12.30 us, 4.57 ms, 8.90 s");
  m.def(
      "bytes_text", [](double bytes) { return bytes_text(bytes, BytesStyle::Estimate); }, "bytes"_a,
      "1000 bytes, 1.5 KiB, 3 MiB");
  m.def(
      "parse_bytes", [](const std::string& text) { return parse_bytes(text); }, "text"_a);
}

}  // namespace cleave::python
