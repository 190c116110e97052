#pragma once

#include "cleave/plan/formulation.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// A choice for every decision of a formulation.
struct Extraction {
  const Graph& flat;
  const Names& names;
  const Formulation& formulation;
  Layouts& layouts;
  const std::vector<int>& choice;
};

// Mesh, values, copies, ops, notes and totals of the plan that a choice means.
Plan extract(const Extraction& extraction);

// The op at a position of the schedule; "the beginning", "the end".
std::string place_name(const Formulation& formulation, const Names& names, int position);

}  // namespace cleave::plan
