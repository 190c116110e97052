#include "cleave/plan/formulation.h"

#include <algorithm>

#include "cleave/plan/formulator.h"

namespace cleave::plan {

Formulation::Formulation(const Graph& flat, const Names& names, Layouts& layouts,
                         StrategyBook& book, const FormulationOptions& options)
    : graph_(flat) {
  Formulator(*this, flat, names, layouts, book, options).run();
}

SpecId Formulation::spec(int version, const std::vector<int>& choice) const {
  const Version& v = versions[version];
  return (*lists_[v.list])[choice[v.decision]];
}

}  // namespace cleave::plan
