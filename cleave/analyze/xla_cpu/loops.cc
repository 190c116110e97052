#include <algorithm>
#include <map>
#include <set>

#include "cleave/analyze/xla_cpu/hlo.h"

namespace cleave::analyze::hlo {
namespace {

// Carries of a loop that nothing reads afterwards, and no other carry is computed from, are
// dropped.
class CarryPruner {
 public:
  CarryPruner(Module& module, Computation& c, int loop) : module_(module), c_(c), loop_(loop) {}

  bool run() {
    merge_repeated();
    const Inst& loop = inst(loop_);
    Computation &condition = called(0), &body = called(1);
    const size_t count = loop.operands.size();
    std::vector<bool> needed(count);
    for (int user : loop.users)
      if (!inst(user).users.empty()) needed[static_cast<size_t>(inst(user).number)] = true;
    mark(condition, condition.root, needed);
    const std::vector<int> results = body.insts[static_cast<size_t>(body.root)].operands;
    for (int id = 0; id < static_cast<int>(body.insts.size()); ++id)
      if (!body.insts[static_cast<size_t>(id)].is_dead && has_effect(body, id))
        mark(body, id, needed);
    std::vector<bool> visited(count);
    for (bool grows = true; grows;) {
      grows = false;
      for (size_t i = 0; i < count; ++i) {
        if (!needed[i] || visited[i]) continue;
        visited[i] = grows = true;
        mark(body, results[i], needed);
      }
    }
    if (std::all_of(needed.begin(), needed.end(), [](bool is) { return is; })) return false;
    drop(needed);
    return true;
  }

 private:
  Inst& inst(int id) { return c_.insts[static_cast<size_t>(id)]; }
  Computation& called(size_t i) {
    return module_.computations[static_cast<size_t>(inst(loop_).called[i])];
  }

  // Stacks of the same elements, which begin alike.
  void merge_repeated() {
    const Computation& body = called(1);
    const std::vector<int>& results = body.insts[static_cast<size_t>(body.root)].operands;
    std::map<std::vector<int>, int> known;  // the start, then what is written where
    for (size_t i = 0; i < results.size(); ++i) {
      const Inst& made = body.insts[static_cast<size_t>(results[i])];
      const Inst& param = body.insts[static_cast<size_t>(body.params[i])];
      if (made.op != Op::Update || made.operands[0] != body.params[i] || param.users.size() != 1)
        continue;
      std::vector<int> key = made.operands;
      key[0] = inst(loop_).operands[i];
      const auto [it, is_new] = known.try_emplace(key, static_cast<int>(i));
      if (!is_new) read_instead(static_cast<int>(i), it->second);
    }
  }

  void read_instead(int from, int to) {
    int other = -1;
    const std::vector<int> users = inst(loop_).users;
    for (int user : users)
      if (inst(user).number == to) other = user;
    if (other < 0) {
      Inst element{.op = Op::Element,
                   .types = {inst(loop_).types[static_cast<size_t>(to)]},
                   .operands = {loop_}};
      element.number = to;
      other = c_.add(std::move(element));
    }
    for (int user : users)
      if (inst(user).number == from) c_.replace_uses(user, other);
  }

  static bool has_effect(const Computation& c, int id) {
    return c.insts[static_cast<size_t>(id)].op == Op::Collective;
  }

  static void mark(const Computation& c, int from, std::vector<bool>& needed) {
    const std::vector<bool> above = c.ancestors(from);
    for (size_t i = 0; i < c.params.size(); ++i)
      if (above[static_cast<size_t>(c.params[i])]) needed[i] = true;
  }

  void drop(const std::vector<bool>& needed) {
    std::vector<int> place(needed.size(), -1);
    int next = 0;
    for (size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) place[i] = next++;
    Inst made = inst(loop_);
    for (Computation* part : {&called(0), &called(1)}) prune(*part, needed, part == &called(1));
    keep(made.operands, needed);
    keep(made.types, needed);
    const int by = c_.add(std::move(made));
    const std::vector<int> users = inst(loop_).users;
    for (int user : users) {
      if (place[static_cast<size_t>(inst(user).number)] < 0) {
        c_.remove(user);
        continue;
      }
      inst(user).number = place[static_cast<size_t>(inst(user).number)];
      c_.set_operand(user, 0, by);
    }
    c_.remove(loop_);
  }

  template <typename T>
  static void keep(std::vector<T>& all, const std::vector<bool>& needed) {
    std::vector<T> kept;
    for (size_t i = 0; i < all.size(); ++i)
      if (needed[i]) kept.push_back(all[i]);
    all = std::move(kept);
  }

  static void prune(Computation& c, const std::vector<bool>& needed, bool is_body) {
    if (is_body) {
      Inst root = c.insts[static_cast<size_t>(c.root)];
      keep(root.operands, needed);
      keep(root.types, needed);
      const int before = c.root;
      c.root = c.add(std::move(root));
      c.remove(before);
    }
    for (size_t i = 0; i < needed.size(); ++i)
      if (!needed[i]) c.insts[static_cast<size_t>(c.params[i])].is_dead = true;
    keep(c.params, needed);
    for (size_t i = 0; i < c.params.size(); ++i)
      c.insts[static_cast<size_t>(c.params[i])].number = static_cast<int>(i);
  }

  Module& module_;
  Computation& c_;
  int loop_;
};

}  // namespace

void prune_loops(Module& module) {
  for (bool changes = true; changes;) {
    changes = false;
    for (Computation& c : module.computations)
      for (size_t id = 0; id < c.insts.size(); ++id)
        if (!c.insts[id].is_dead && c.insts[id].op == Op::Loop)
          changes = CarryPruner(module, c, static_cast<int>(id)).run() || changes;
  }
}

namespace {

// Takes out of a loop what is computed of values that it does not change.
class Hoister {
 public:
  Hoister(Module& module, Computation& c, int loop) : module_(module), c_(c), loop_(loop) {}

  void run() {
    Computation& body = called(1);
    const std::vector<int> results = body.insts[static_cast<size_t>(body.root)].operands;
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i] == body.params[i]) outside_[results[i]] = inst(loop_).operands[i];
    if (outside_.empty()) return;
    std::vector<int> found;
    for (int id : body.post_order()) {
      const Inst& now = body.insts[static_cast<size_t>(id)];
      if (now.op == Op::Parameter || now.op == Op::Tuple || !now.called.empty() ||
          now.operands.empty() || !now.is_array())
        continue;
      if (!std::all_of(now.operands.begin(), now.operands.end(),
                       [&](int operand) { return is_fixed(body, operand); }))
        continue;
      fixed_.insert(id);
      if (is_worth_it(now.op)) found.push_back(id);
    }
    for (int id : found) hoist(body, id);
  }

 private:
  Inst& inst(int id) { return c_.insts[static_cast<size_t>(id)]; }
  Computation& called(size_t i) {
    return module_.computations[static_cast<size_t>(inst(loop_).called[i])];
  }

  bool is_fixed(const Computation& body, int id) const {
    return outside_.contains(id) || body.insts[static_cast<size_t>(id)].op == Op::Constant ||
           fixed_.contains(id);
  }

  // Views are taken out only for what is computed of them.
  static bool is_worth_it(Op op) {
    return op != Op::Reshape && op != Op::Broadcast && op != Op::Transpose && op != Op::Slice &&
           op != Op::Reverse && op != Op::Element && op != Op::Other;
  }

  int copy_outside(const Computation& body, int id) {
    const auto known = outside_.find(id);
    if (known != outside_.end()) return known->second;
    Inst copy = body.insts[static_cast<size_t>(id)];
    for (int& operand : copy.operands) operand = copy_outside(body, operand);
    return outside_[id] = c_.add(std::move(copy));
  }

  void hoist(Computation& body, int id) {
    if (body.insts[static_cast<size_t>(id)].users.empty()) return;
    const int made = copy_outside(body, id);
    const Type type = inst(made).type();
    inst(loop_).operands.push_back(made);
    inst(loop_).types.push_back(type);
    inst(made).users.push_back(loop_);
    for (Computation* part : {&called(0), &body}) {
      Inst param{.op = Op::Parameter, .types = {type}};
      param.number = static_cast<int>(part->params.size());
      part->params.push_back(part->add(std::move(param)));
    }
    const int param = body.params.back();
    body.replace_uses(id, param);
    body.remove(id);
    Inst& root = body.insts[static_cast<size_t>(body.root)];
    root.operands.push_back(param);
    root.types.push_back(type);
    body.insts[static_cast<size_t>(param)].users.push_back(body.root);
    outside_[param] = made;
  }

  Module& module_;
  Computation& c_;
  int loop_;
  std::map<int, int> outside_;  // by instruction of the body: the same around the loop
  std::set<int> fixed_;
};

}  // namespace

void hoist_invariants(Module& module) {
  // Inner loops come later in the list than those around them.
  for (size_t i = module.computations.size(); i-- > 0;) {
    Computation& c = module.computations[i];
    const size_t count = c.insts.size();
    for (size_t id = 0; id < count; ++id)
      if (!c.insts[id].is_dead && c.insts[id].op == Op::Loop)
        Hoister(module, c, static_cast<int>(id)).run();
  }
}

}  // namespace cleave::analyze::hlo
