#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cleave/core/sharding_rule.h"

namespace cleave {

// A rule as dense tables: what propagation reads on every visit of an op. An *entry* is a factor of
// a tensor; entries are numbered tensor by tensor (operands first), dimension by dimension, major
// to minor.
//
//   reshape ([ij])->([i, j]):  entries  0: operand 0, i    1: operand 0, j (minor-most)
//                                       2: result 0, i     3: result 0, j
struct RuleIndex {
  struct Entry {
    int16_t tensor;
    int16_t dim;
    int32_t factor;
    bool minor_most;
  };

  explicit RuleIndex(std::shared_ptr<const OpShardingRule> rule);

  std::shared_ptr<const OpShardingRule> rule;
  int num_factors = 0;
  int num_tensors = 0;
  int num_operands = 0;
  bool has_compound = false;  // some dimension has several factors
  std::vector<Entry> entries;
  std::vector<int32_t> tensor_begin;  // of tensor t: entries [tensor_begin[t], tensor_begin[t + 1])
  std::vector<int32_t> entry_of;      // [tensor * num_factors + factor], -1 if not mapped

  int find(int tensor, int factor) const { return entry_of[tensor * num_factors + factor]; }
  std::span<const Entry> of_tensor(int tensor) const {
    return {entries.data() + tensor_begin[tensor],
            static_cast<size_t>(tensor_begin[tensor + 1] - tensor_begin[tensor])};
  }
};

}  // namespace cleave
