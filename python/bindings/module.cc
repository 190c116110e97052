#include "bindings.h"

#include "cleave/core/error.h"

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  using namespace cleave::python;
  m.doc() = "Cleave's C++ library.";
  m.attr("__version__") = CLEAVE_VERSION;
  nb::exception<cleave::UserError>(m, "UserError", PyExc_ValueError);
  nb::exception<cleave::InternalError>(m, "InternalError", PyExc_RuntimeError);
  bind_algebra(m);
  bind_modules(m);
  bind_planning(m);
  bind_compiled(m);
  bind_rules(m);
  bind_machines(m);
  bind_running(m);
  bind_discovery(m);
  bind_tensors(m);
  bind_transforms(m);
  bind_flow(m);
  bind_programs(m);
}
