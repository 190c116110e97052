#include "cleave/plan/formulation.h"

#include <algorithm>

#include "cleave/analyze/kernels.h"
#include "cleave/analyze/program_cost.h"
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

double Formulation::spill_seconds(int version, int c, const Layouts& layouts) const {
  const Version& v = versions[version];
  const SpecId spec = (*lists_[v.list])[c];
  if (v.spill_bytes <= 0 || spec == kNoSpec) return 0;
  return analyze::spill_seconds(v.spill_bytes, layouts.spec(spec), layouts.profile());
}

double Formulation::weight(int branch) const {
  double weight = 1;
  while (branch >= 0) {
    const auto [group, place] = group_of_[branch];
    weight *= groups[group].weights[place];
    branch = groups[group].parent;
  }
  return weight;
}

void Formulation::weigh(const std::vector<int>& heavy, double share) {
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<double>& weights = groups[g].weights;
    std::fill(weights.begin(), weights.end(), share);
    weights[heavy[g]] = 1 - share * static_cast<double>(weights.size() - 1);
  }
}

std::vector<int> Formulation::dearest_branches(const std::vector<int>& choice,
                                               Layouts& layouts) const {
  std::vector<double> seconds(group_of_.size(), 0.0);
  for (const FormulatedOp& op : ops) {
    if (op.branch < 0) continue;
    const double once =
        op.set ? op.set->list[op.pick[choice[op.decision]]].seconds : op.fixed.seconds();
    seconds[op.branch] += once * op.times;
  }
  for (const Demand& demand : demands) {
    if (demand.branch < 0) continue;
    const SpecId from = spec(demand.version, choice),
                 to = list(demand.list)[choice[demand.decision]];
    if (from != to && from != kNoSpec && to != kNoSpec)
      seconds[demand.branch] +=
          (layouts.seconds(from, to, type(demand.version)) +
           spill_seconds(demand.version, choice[versions[demand.version].decision], layouts)) *
          demand.times;
  }
  std::vector<int> dearest(groups.size(), 0);
  for (size_t g = groups.size(); g-- > 0;) {
    const auto begin = seconds.begin() + groups[g].first;
    dearest[g] =
        analyze::dearest_of({begin, begin + static_cast<ptrdiff_t>(groups[g].weights.size())});
    if (groups[g].parent >= 0) seconds[groups[g].parent] += begin[dearest[g]];
  }
  return dearest;
}

}  // namespace cleave::plan
