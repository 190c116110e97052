#include <algorithm>
#include <map>
#include <set>

#include "cleave/analyze/xla_cpu/hlo.h"

namespace cleave::analyze::hlo {
namespace {

// What reads the memory of a value: users, and users of what only shows it.
std::vector<int> readers(const Computation& c, int id) {
  std::vector<int> found, left{id};
  while (!left.empty()) {
    const int now = left.back();
    left.pop_back();
    for (int user : c.insts[static_cast<size_t>(now)].users) {
      if (c.insts[static_cast<size_t>(user)].op == Op::Reshape)
        left.push_back(user);
      else
        found.push_back(user);
    }
  }
  return found;
}

int behind_views(const Computation& c, int id) {
  while (c.insts[static_cast<size_t>(id)].op == Op::Reshape)
    id = c.insts[static_cast<size_t>(id)].operands[0];
  return id;
}

class CopyInserter {
 public:
  CopyInserter(Module& module, Computation& c, bool is_entry)
      : module_(module), c_(c), is_entry_(is_entry) {}

  void run(const std::vector<bool>& is_carried) {
    for (int id : c_.post_order())
      if (updated_operand(module_, c_, id) >= 0) copy_updated(id);
    for (int id : c_.post_order())
      if (inst(id).op == Op::Loop) copy_carried(id);
    if (is_entry_)
      copy_results();
    else
      copy_body(is_carried);
  }

 private:
  Inst& inst(int id) { return c_.insts[static_cast<size_t>(id)]; }

  int copy_of(int id) {
    return c_.add({.op = Op::Copy, .types = inst(id).types, .operands = {id}});
  }

  // Before an op writes in the place of a value that others read later.
  void copy_updated(int id) {
    const int operand = updated_operand(module_, c_, id);
    const int source = behind_views(c_, operand);
    const std::vector<bool> before = c_.ancestors(id);
    bool needs = inst(source).op == Op::Constant ||
                 (is_entry_ && inst(source).op == Op::Parameter &&
                  !module_.is_donated[static_cast<size_t>(inst(source).number)]);
    for (int reader : readers(c_, source)) needs = needs || !before[static_cast<size_t>(reader)];
    if (needs) use_copy(id, operand);
  }

  void use_copy(int user, int operand) {
    const int copy = copy_of(operand);
    for (size_t i = 0; i < inst(user).operands.size(); ++i)
      if (inst(user).operands[i] == operand) c_.set_operand(user, i, copy);
  }

  // What a loop changes must not be read by others afterwards.
  void copy_carried(int id) {
    const Computation& body = module_.computations[static_cast<size_t>(inst(id).called[1])];
    const std::vector<bool> before = c_.ancestors(id);
    std::set<int> taken;
    for (size_t i = 0; i < inst(id).operands.size(); ++i) {
      const int made = behind_views(body, body.insts[static_cast<size_t>(body.root)].operands[i]);
      if (made == body.params[i]) continue;  // the loop only reads it
      const int operand = inst(id).operands[i];
      const int source = behind_views(c_, operand);
      bool needs = inst(source).op == Op::Constant || inst(source).op == Op::Parameter ||
                   !taken.insert(source).second;
      for (int reader : readers(c_, source)) needs = needs || !before[static_cast<size_t>(reader)];
      if (needs) c_.set_operand(id, i, copy_of(operand));
    }
  }

  // Whether a value can take the memory of a parameter: all that read it have run by then.
  bool takes_place(int param, int result) {
    const std::vector<bool> before = c_.ancestors(result);
    for (int reader : readers(c_, param)) {
      if (inst(reader).op == Op::Tuple) return false;
      if (reader != result) {
        if (!before[static_cast<size_t>(reader)]) return false;
        continue;
      }
      const std::vector<int>& operands = inst(result).operands;
      const auto i = static_cast<size_t>(std::find(operands.begin(), operands.end(), param) -
                                         operands.begin());
      if (i == operands.size()) return false;  // through a view
      if (updated_operand(module_, c_, result) != param && !can_share(module_, c_, result, i))
        return false;
    }
    return true;
  }

  void use_copy_everywhere(int param) {
    const int copy = copy_of(param);
    const std::vector<int> users = inst(param).users;
    for (int user : users) {
      if (user == copy) continue;
      for (size_t i = 0; i < inst(user).operands.size(); ++i)
        if (inst(user).operands[i] == param) c_.set_operand(user, i, copy);
    }
  }

  void copy_results() {
    std::map<int, size_t> seen;
    for (size_t i = 0; i < inst(c_.root).operands.size(); ++i) {
      const int result = behind_views(c_, inst(c_.root).operands[i]);
      const Op op = inst(result).op;
      const int alias = module_.alias_of[i];
      const bool is_own = op == Op::Parameter && alias == inst(result).number;
      const bool is_new = seen.try_emplace(result, i).second;
      if (!is_new || ((op == Op::Parameter || op == Op::Constant) && !is_own))
        c_.set_operand(c_.root, i, copy_of(inst(c_.root).operands[i]));
      if (alias < 0 || is_own) continue;
      const int param = c_.params[static_cast<size_t>(alias)];
      if (!takes_place(param, behind_views(c_, inst(c_.root).operands[i])))
        use_copy_everywhere(param);
    }
  }

  void copy_body(const std::vector<bool>& is_carried) {
    if (c_.root < 0) return;
    std::set<int> seen;
    for (size_t i = 0; i < inst(c_.root).operands.size() && i < is_carried.size(); ++i) {
      const int result = behind_views(c_, inst(c_.root).operands[i]);
      const int param = c_.params[i];
      if (result == param) continue;
      const bool is_new = seen.insert(result).second;
      if (inst(result).op == Op::Parameter || inst(result).op == Op::Constant || !is_new) {
        c_.set_operand(c_.root, i, copy_of(inst(c_.root).operands[i]));
        continue;
      }
      if (!takes_place(param, result)) use_copy_everywhere(param);
    }
  }

  Module& module_;
  Computation& c_;
  bool is_entry_;
};

}  // namespace

int updated_operand(const Module& module, const Computation& c, int id) {
  const Inst& now = c.insts[static_cast<size_t>(id)];
  if (now.op == Op::Update || now.op == Op::Scatter) return now.operands[0];
  if (now.op != Op::Fusion) return -1;
  const Computation& inside = module.computations[static_cast<size_t>(now.called[0])];
  const Inst& root = inside.insts[static_cast<size_t>(behind_views(inside, inside.root))];
  if (root.op != Op::Update && root.op != Op::Scatter) return -1;
  const int param = behind_views(inside, root.operands[0]);
  const auto place = std::find(inside.params.begin(), inside.params.end(), param);
  if (place == inside.params.end()) return -1;
  return now.operands[static_cast<size_t>(place - inside.params.begin())];
}

bool can_share(const Module& module, const Computation& c, int user, size_t i) {
  const Inst& now = c.insts[static_cast<size_t>(user)];
  const Inst& from = c.insts[static_cast<size_t>(now.operands[i])];
  if (from.op == Op::Constant || now.types.size() != 1 || from.types.size() != 1) return false;
  if (now.type() != from.type()) return false;
  if (now.op == Op::Elementwise) return true;
  if (now.op == Op::Update || now.op == Op::Scatter) return i == 0;
  if (now.op == Op::Sort) return from.users.size() == 1;
  if (now.op != Op::Fusion) return false;
  if (updated_operand(module, c, user) == now.operands[i]) return true;
  const Computation& inside = module.computations[static_cast<size_t>(now.called[0])];
  std::vector<int> left{inside.params[i]};
  std::set<int> seen;
  while (!left.empty()) {
    const int id = left.back();
    left.pop_back();
    for (int next : inside.insts[static_cast<size_t>(id)].users) {
      if (inside.insts[static_cast<size_t>(next)].op != Op::Elementwise) return false;
      if (seen.insert(next).second) left.push_back(next);
    }
  }
  return true;
}

void insert_copies(Module& module) {
  std::map<int, std::vector<bool>> bodies;  // of loops: which values they carry
  std::vector<bool> is_flow(module.computations.size());
  is_flow[static_cast<size_t>(module.entry)] = true;
  for (const Computation& computation : module.computations)
    for (const Inst& inst : computation.insts) {
      if (inst.op == Op::Loop) {
        bodies[inst.called[1]] = std::vector<bool>(inst.operands.size(), true);
        is_flow[static_cast<size_t>(inst.called[0])] = true;
      }
      if (inst.op == Op::Loop || inst.op == Op::Branches)
        for (int called : inst.called) is_flow[static_cast<size_t>(called)] = true;
    }
  for (size_t i = 0; i < module.computations.size(); ++i)
    if (is_flow[i])
      CopyInserter(module, module.computations[i], static_cast<int>(i) == module.entry)
          .run(bodies[static_cast<int>(i)]);
}

}  // namespace cleave::analyze::hlo
