#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "cleave/core/error.h"
#include "cleave/xla/compiled_program.h"

namespace cleave::python {

using namespace nb::literals;

namespace {

// Of text, or of what JAX compiled, which has the method as_text.
std::string hlo_text(nb::handle source) {
  const nb::object text =
      nb::hasattr(source, "as_text") ? source.attr("as_text")() : nb::borrow(source);
  if (!nb::isinstance<nb::str>(text))
    throw_user(
        "read_compiled: the text of a compiled module or what JAX compiled is needed, not {}",
        nb::cast<std::string>(source.type().attr("__name__")));
  return nb::cast<std::string>(text);
}

}  // namespace

void bind_compiled(nb::module_& m) {
  nb::class_<xla::CompiledProgram>(m, "CompiledProgram",
                                   "What XLA made of a program, by its own text.")
      .def_prop_ro("name", [](const xla::CompiledProgram& self) { return self.name; })
      .def_prop_ro("devices", &xla::CompiledProgram::devices)
      .def_prop_ro("received_bytes", &xla::CompiledProgram::received_bytes)
      .def("json", [](const xla::CompiledProgram& self) { return to_json(self); })
      .def("__str__", [](const xla::CompiledProgram& self) { return to_string(self); })
      .def("__repr__",
           [](nb::handle self) {
             return nb::str(nb::module_::import_("cleave.pictures").attr("compiled_repr")(self));
           })
      .def("_repr_html_", [](nb::handle self) {
        return nb::str(nb::module_::import_("cleave.pictures").attr("compiled_html")(self));
      });
  m.def(
      "read_compiled",
      [](nb::handle source, std::optional<int64_t> devices, int64_t trips,
         std::optional<int64_t> temporaries) {
        const std::string text = hlo_text(source);
        nb::gil_scoped_release released;
        return xla::read_compiled(text,
                                  {.devices = devices, .trips = trips, .temporaries = temporaries});
      },
      "text"_a, "devices"_a = nb::none(), "trips"_a = 1, "temporaries"_a = nb::none(),
      "Reads a compiled module of JAX, or its text, as `compiled.as_text()` gives it.");
}

}  // namespace cleave::python
