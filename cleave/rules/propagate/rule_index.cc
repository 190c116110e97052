#include "cleave/rules/propagate/rule_index.h"

#include <utility>

namespace cleave {

RuleIndex::RuleIndex(std::shared_ptr<const OpShardingRule> rule_) : rule(std::move(rule_)) {
  num_factors = static_cast<int>(rule->factors.size());
  num_operands = static_cast<int>(rule->operands.size());
  num_tensors = static_cast<int>(rule->num_tensors());
  entry_of.assign(static_cast<size_t>(num_tensors) * num_factors, -1);
  tensor_begin.reserve(num_tensors + 1);
  for (int t = 0; t < num_tensors; ++t) {
    tensor_begin.push_back(static_cast<int32_t>(entries.size()));
    const TensorFactors& dims = rule->tensor(t);
    for (size_t d = 0; d < dims.size(); ++d) {
      has_compound |= dims[d].size() > 1;
      for (FactorIndex factor : dims[d]) {
        entry_of[t * num_factors + factor] = static_cast<int32_t>(entries.size());
        entries.push_back(
            {static_cast<int16_t>(t), static_cast<int16_t>(d), factor, factor == dims[d].back()});
      }
    }
  }
  tensor_begin.push_back(static_cast<int32_t>(entries.size()));
}

}  // namespace cleave
