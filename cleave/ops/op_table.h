#pragma once

#include <unordered_map>

#include "cleave/ops/op.h"

namespace cleave {

// What a room does with each op: one look-up by definition, and nothing for ops that are not in it.
//
//   static const auto table =
//       OpTable<Rule>().set<op::Add>(add).set<op::Maximum, op::Minimum>(fold);
//   if (const Rule* rule = table.find(node)) (*rule)(node);
template <typename Value>
class OpTable {
 public:
  // Enters one value for several ops.
  template <typename... Ops>
  OpTable& set(Value value) {
    ((values_[&def_of<Ops>()] = value), ...);
    return *this;
  }
  // Null if the op has no entry.
  const Value* find(const Node& node) const {
    const auto it = values_.find(node.def);
    return it == values_.end() ? nullptr : &it->second;
  }

 private:
  std::unordered_map<const OpDef*, Value> values_;
};

}  // namespace cleave
