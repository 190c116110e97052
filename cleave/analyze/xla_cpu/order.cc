#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "cleave/analyze/xla_cpu/hlo.h"
#include "cleave/ops/op.h"

namespace cleave::analyze::hlo {

std::vector<std::vector<int>> schedule(const Module& module) {
  std::vector<std::vector<int>> orders;
  for (const Computation& c : module.computations) {
    std::vector<int> waits(c.insts.size()), order;
    std::queue<int> ready;
    auto is_ready = [&](size_t i) { return !c.insts[i].is_dead && waits[i] == 0; };
    for (size_t i = 0; i < c.insts.size(); ++i) {
      const std::set<int> operands(c.insts[i].operands.begin(), c.insts[i].operands.end());
      waits[i] = static_cast<int>(operands.size());
      if (is_ready(i)) ready.push(static_cast<int>(i));
    }
    while (!ready.empty()) {
      const int now = ready.front();
      ready.pop();
      order.push_back(now);
      for (int user : c.insts[static_cast<size_t>(now)].users)
        if (--waits[static_cast<size_t>(user)] == 0) ready.push(user);
    }
    orders.push_back(std::move(order));
  }
  return orders;
}

void combine_all_reduces(Module& module) {
  for (Computation& c : module.computations) {
    std::map<std::string, std::vector<int>> by_key;
    for (int id : c.post_order()) {
      const Inst& inst = c.insts[static_cast<size_t>(id)];
      if (inst.op == Op::Collective && inst.def == &def_of<op::AllReduce>())
        by_key[inst.detail + std::to_string(static_cast<int>(inst.type().dtype))].push_back(id);
    }
    for (auto& [key, left] : by_key) {
      while (!left.empty()) {
        std::vector<int> joined, rest;
        for (int id : left) {
          const std::vector<bool> above = c.ancestors(id);
          const bool depends = std::any_of(joined.begin(), joined.end(), [&](int other) {
            return above[static_cast<size_t>(other)];
          });
          (depends ? rest : joined).push_back(id);
        }
        left = rest;
        if (joined.size() < 2) continue;
        Inst made = c.insts[static_cast<size_t>(joined[0])];
        made.operands.clear();
        made.types.clear();
        for (int id : joined) {
          made.operands.push_back(c.insts[static_cast<size_t>(id)].operands[0]);
          made.types.push_back(c.insts[static_cast<size_t>(id)].type());
        }
        const std::vector<Type> types = made.types;
        const int all = c.add(std::move(made));
        for (size_t i = 0; i < joined.size(); ++i) {
          Inst element{.op = Op::Element, .types = {types[i]}, .operands = {all}};
          element.number = static_cast<int>(i);
          const int part = c.add(std::move(element));
          c.replace_uses(joined[i], part);
          c.remove(joined[i]);
        }
      }
    }
  }
}

}  // namespace cleave::analyze::hlo
