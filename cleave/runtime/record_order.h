#pragma once

#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/runtime/record.h"

namespace cleave {

// The records that `roots` depend on and `follow` accepts, operands before users. Records that
// `follow` refuses are not listed, nor is anything behind them. Long chains need no deep stack.
template <typename Follow>
std::vector<Record*> in_order(std::span<Record* const> roots, const Follow& follow) {
  std::vector<Record*> order;
  std::unordered_set<Record*> seen;
  std::vector<std::pair<Record*, size_t>> stack;
  for (Record* root : roots) {
    if (!follow(*root) || !seen.insert(root).second) continue;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [record, next] = stack.back();
      if (next == record->operands.size()) {
        order.push_back(record);
        stack.pop_back();
        continue;
      }
      Record* operand = record->operands[next++].record();
      if (follow(*operand) && seen.insert(operand).second) stack.emplace_back(operand, 0);
    }
  }
  return order;
}

}  // namespace cleave
