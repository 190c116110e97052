#include "cleave/analyze/xla_cpu/hlo.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/graph/op_def.h"

namespace cleave::analyze::hlo {

// The last user takes its place, as in XLA, which visits users in this order.
void drop_user(std::vector<int>& users, int user) {
  const auto place = std::find(users.begin(), users.end(), user);
  if (place == users.end()) return;
  *place = users.back();
  users.pop_back();
}

int Computation::add(Inst inst) {
  const int id = static_cast<int>(insts.size());
  for (int operand : inst.operands) {
    std::vector<int>& users = insts[operand].users;
    if (std::find(users.begin(), users.end(), id) == users.end()) users.push_back(id);
  }
  inst.users.clear();
  inst.is_dead = false;
  insts.push_back(std::move(inst));
  return id;
}

void Computation::set_operand(int user, size_t i, int to) {
  const int from = insts[user].operands[i];
  if (from == to) return;
  insts[user].operands[i] = to;
  const std::vector<int>& operands = insts[user].operands;
  if (std::find(operands.begin(), operands.end(), from) == operands.end())
    drop_user(insts[from].users, user);
  std::vector<int>& users = insts[to].users;
  if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
}

void Computation::replace_uses(int from, int to) {
  const std::vector<int> users = insts[from].users;
  for (int user : users)
    for (size_t i = 0; i < insts[user].operands.size(); ++i)
      if (insts[user].operands[i] == from) set_operand(user, i, to);
}

void Computation::remove(int id) {
  std::vector<int> left{id};
  while (!left.empty()) {
    const int now = left.back();
    left.pop_back();
    Inst& inst = insts[now];
    if (inst.is_dead || !inst.users.empty() || inst.op == Op::Parameter || now == root) continue;
    inst.is_dead = true;
    for (int operand : inst.operands) {
      drop_user(insts[operand].users, now);
      left.push_back(operand);
    }
  }
}

std::vector<bool> Computation::ancestors(int id) const {
  std::vector<bool> above(insts.size());
  std::vector<int> left{id};
  above[static_cast<size_t>(id)] = true;
  while (!left.empty()) {
    const int now = left.back();
    left.pop_back();
    for (int operand : insts[static_cast<size_t>(now)].operands)
      if (!above[static_cast<size_t>(operand)]) {
        above[static_cast<size_t>(operand)] = true;
        left.push_back(operand);
      }
  }
  return above;
}

std::vector<int> Computation::post_order() const {
  std::vector<int> order;
  std::vector<uint8_t> state(insts.size());
  std::vector<int> stack;
  for (size_t i = 0; i < insts.size(); ++i) {
    if (insts[i].is_dead || !insts[i].users.empty()) continue;
    stack.push_back(static_cast<int>(i));
    while (!stack.empty()) {
      const int now = stack.back();
      if (state[now] == 2) {
        stack.pop_back();
        continue;
      }
      if (state[now] == 1) {
        state[now] = 2;
        order.push_back(now);
        stack.pop_back();
        continue;
      }
      state[now] = 1;
      const std::vector<int>& operands = insts[now].operands;
      for (auto it = operands.rbegin(); it != operands.rend(); ++it)
        if (state[*it] == 0) stack.push_back(*it);
    }
  }
  return order;
}

int64_t bytes_of(const Type& type) {
  return type.is_tensor() && type.has_static_shape() ? type.byte_count() : 0;
}

int64_t elements_of(const Type& type) {
  return type.is_tensor() && type.has_static_shape() ? num_elements(type.shape) : 0;
}

bool is_scalar(const Type& type) { return elements_of(type) == 1; }

std::string to_string(const Module& module, const std::vector<std::vector<int>>& order) {
  static constexpr const char* kNames[] = {
      "parameter", "constant", "iota",       "elementwise", "broadcast",   "reshape", "transpose",
      "reorder",   "slice",    "pad",        "reverse",     "concatenate", "dslice",  "update",
      "gather",    "scatter",  "reduce",     "window",      "dot",         "conv",    "sort",
      "loop",      "branches", "collective", "barrier",     "element",     "copy",    "fusion",
      "library",   "other",    "tuple"};
  std::string text;
  for (size_t c = 0; c < order.size(); ++c) {
    text +=
        fmt::format("computation {}{}\n", c, static_cast<int>(c) == module.entry ? " entry" : "");
    for (int id : order[c]) {
      const Inst& inst = module.computations[c].insts[id];
      text += fmt::format("  %{} = ", id);
      for (const Type& type : inst.types) text += to_string(type) + " ";
      text += kNames[static_cast<size_t>(inst.op)];
      if (inst.def) text += " " + inst.def->name;
      text += "(";
      for (int operand : inst.operands) text += fmt::format(" %{}", operand);
      text += " )";
      if (inst.op == Op::Fusion || inst.op == Op::Library) {
        text += " {";
        for (const Inst& part : module.computations[inst.called[0]].insts)
          if (!part.is_dead && part.op != Op::Parameter)
            text +=
                fmt::format(" {}", part.def ? part.def->name.substr(part.def->name.find('.') + 1)
                                            : kNames[static_cast<size_t>(part.op)]);
        text += " }";
      } else {
        for (int called : inst.called) text += fmt::format(" calls {}", called);
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace cleave::analyze::hlo
