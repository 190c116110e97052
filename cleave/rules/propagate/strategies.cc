#include "cleave/rules/propagate/strategies.h"

#include <algorithm>
#include <map>

namespace cleave {
namespace {

// The dimensions of priority 0 as they are; all others parked.
ShardingSpec park_lower_priorities(const ShardingSpec& original) {
  ShardingSpec spec = original;
  for (DimSpec& dim : spec.dims) {
    if (dim.priority.value_or(0) == 0) {
      dim.priority.reset();
    } else {
      spec.replicated.insert(spec.replicated.end(), dim.axes.begin(), dim.axes.end());
      dim = DimSpec{};
    }
  }
  std::sort(spec.replicated.begin(), spec.replicated.end());
  return spec;
}

// The dimensions of this priority get what the user wrote.
ShardingSpec unpark(ShardingSpec spec, const ShardingSpec& original, int64_t priority) {
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    if (original.dims[d].priority.value_or(0) != priority) continue;
    spec.dims[d] = original.dims[d];
    spec.dims[d].priority.reset();
    for (const AxisRef& axis : original.dims[d].axes) std::erase(spec.replicated, axis);
  }
  return spec;
}

}  // namespace

void UserPriorityStrategy::propagate(PropagationEngine& engine, int stage) const {
  SpecTable& specs = engine.specs();
  std::map<int64_t, std::vector<std::pair<int32_t, int32_t>>> waiting;  // priority: slot, original
  for (size_t s = 0; s < engine.tables().slots.size(); ++s) {
    const auto slot = static_cast<int32_t>(s);
    const int32_t original = engine.spec_of(slot);
    if (original < 0) continue;
    bool any = false;
    std::vector<int64_t> priorities;
    for (const DimSpec& dim : specs[original].dims) {
      any |= dim.priority.has_value();
      if (dim.priority.value_or(0) > 0) priorities.push_back(*dim.priority);
    }
    if (!any) continue;
    std::sort(priorities.begin(), priorities.end());
    priorities.erase(std::unique(priorities.begin(), priorities.end()), priorities.end());
    for (int64_t priority : priorities) waiting[priority].emplace_back(slot, original);
    engine.assign(slot, specs.intern(park_lower_priorities(specs[original])),
                  ChangeCause::Priority);
  }
  below_->propagate(engine, stage);
  for (const auto& [priority, annotations] : waiting) {
    for (const auto& [slot, original] : annotations)
      engine.assign(slot,
                    specs.intern(unpark(specs[engine.spec_of(slot)], specs[original], priority)),
                    ChangeCause::Priority, static_cast<int16_t>(priority));
    below_->propagate(engine, stage);
  }
}

std::unique_ptr<PropagationStrategy> make_strategy(const PropagationOptions& options) {
  auto sweep = [](std::unique_ptr<FactorPropagation> factors) {
    return std::make_unique<SweepStrategy>(std::move(factors));
  };
  std::unique_ptr<PropagationStrategy> strategy;
  if (options.strategy == FactorStrategy::Basic) {
    strategy = sweep(std::make_unique<BasicFactorPropagation>());
  } else if (options.strategy == FactorStrategy::Aggressive) {
    strategy = sweep(std::make_unique<AggressiveFactorPropagation>());
  } else {
    std::vector<std::unique_ptr<PropagationStrategy>> parts;
    parts.push_back(sweep(std::make_unique<BasicFactorPropagation>()));
    parts.push_back(sweep(std::make_unique<AggressiveFactorPropagation>()));
    strategy = std::make_unique<SequenceStrategy>(std::move(parts));
  }
  if (options.op_priorities) strategy = std::make_unique<OpPriorityStrategy>(std::move(strategy));
  if (options.user_priorities)
    strategy = std::make_unique<UserPriorityStrategy>(std::move(strategy));
  return strategy;
}

}  // namespace cleave
