#include "cleave/plan/first_choices.h"

#include <algorithm>

namespace cleave::plan {
namespace {

bool uses(const ShardingSpec& spec, int axis) {
  const auto is_on = [axis](const AxisRef& ref) { return ref.axis == axis; };
  return std::ranges::any_of(spec.partial, is_on) ||
         std::ranges::any_of(
             spec.dims, [&](const DimSpec& dim) { return std::ranges::any_of(dim.axes, is_on); });
}

}  // namespace

KeptChoices choices_without(int axis, const Formulation& formulation, const Layouts& layouts,
                            const Classes& classes) {
  std::vector<std::vector<bool>> is_used(classes.count);
  for (size_t d = 0; d < formulation.decisions.size(); ++d)
    is_used[classes.of[d]].resize(formulation.decisions[d].count);
  const auto look = [&](int decision, size_t choice, SpecId spec) {
    if (spec != kNoSpec && uses(layouts.spec(spec), axis))
      is_used[classes.of[decision]][choice] = true;
  };
  const auto look_at = [&](int decision, ListId id) {
    const std::vector<SpecId>& list = formulation.list(id);
    for (size_t c = 0; c < list.size(); ++c) look(decision, c, list[c]);
  };
  for (const Version& version : formulation.versions) look_at(version.decision, version.list);
  for (const Demand& demand : formulation.demands) look_at(demand.decision, demand.list);
  for (const FormulatedOp& op : formulation.ops)
    for (size_t c = 0; c < op.pick.size(); ++c) {
      const Strategy& strategy = op.set->list[op.pick[c]];
      for (const auto* specs : {&strategy.operands, &strategy.results})
        for (SpecId spec : *specs) look(op.decision, c, spec);
    }
  KeptChoices kept(classes.count);
  for (int k = 0; k < classes.count; ++k) {
    const bool is_free = std::ranges::any_of(is_used[k], [](bool used) { return !used; });
    for (size_t c = 0; c < is_used[k].size(); ++c)
      if (!is_free || !is_used[k][c]) kept[k].push_back(static_cast<int>(c));
  }
  return kept;
}

}  // namespace cleave::plan
