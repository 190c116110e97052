#pragma once

#include "cleave/plan/tables.h"

namespace cleave::plan {

// By class the choices in which nothing is split over an axis of the mesh, and no sum is pending
// along it: all devices along the axis do the same. All of a class that has no such choice.
KeptChoices choices_without(int axis, const Formulation& formulation, const Layouts& layouts,
                            const Classes& classes);

}  // namespace cleave::plan
