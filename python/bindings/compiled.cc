#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "cleave/xla/compiled_program.h"

namespace cleave::python {

using namespace nb::literals;

void bind_compiled(nb::module_& m) {
  nb::class_<xla::CompiledProgram>(m, "CompiledProgram",
                                   "What XLA made of a program, by its own text.")
      .def_prop_ro("name", [](const xla::CompiledProgram& self) { return self.name; })
      .def_prop_ro("devices", &xla::CompiledProgram::devices)
      .def_prop_ro("received_bytes", &xla::CompiledProgram::received_bytes)
      .def("json", [](const xla::CompiledProgram& self) { return to_json(self); })
      .def("__str__", [](const xla::CompiledProgram& self) { return to_string(self); });
  m.def(
      "read_compiled",
      [](const std::string& text, std::optional<int64_t> devices, int64_t trips,
         std::optional<int64_t> temporaries) {
        nb::gil_scoped_release released;
        return xla::read_compiled(text,
                                  {.devices = devices, .trips = trips, .temporaries = temporaries});
      },
      "text"_a, "devices"_a = nb::none(), "trips"_a = 1, "temporaries"_a = nb::none(),
      "Reads the text of a compiled module, as `compiled.as_text()` of JAX gives it.");
}

}  // namespace cleave::python
