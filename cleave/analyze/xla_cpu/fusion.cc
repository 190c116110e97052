#include <algorithm>
#include <map>

#include "cleave/analyze/xla_cpu/hlo.h"
#include "cleave/ops/op.h"

namespace cleave::analyze::hlo {
namespace {

// The parameter of a fusion that stands for a value around it; a new one if there is none.
int parameter_for(Module& module, Computation& c, int fusion, int value) {
  std::vector<int>& operands = c.insts[static_cast<size_t>(fusion)].operands;
  Computation& inside =
      module.computations[static_cast<size_t>(c.insts[static_cast<size_t>(fusion)].called[0])];
  const auto known = std::find(operands.begin(), operands.end(), value);
  if (known != operands.end()) return inside.params[static_cast<size_t>(known - operands.begin())];
  operands.push_back(value);
  std::vector<int>& users = c.insts[static_cast<size_t>(value)].users;
  if (std::find(users.begin(), users.end(), fusion) == users.end()) users.push_back(fusion);
  const int param =
      inside.add({.op = Op::Parameter, .types = c.insts[static_cast<size_t>(value)].types});
  inside.params.push_back(param);
  return param;
}

// A copy of an instruction inside a fusion.
int copy_inside(Module& module, Computation& c, int fusion, int id) {
  Inst copy = c.insts[static_cast<size_t>(id)];
  for (int& operand : copy.operands) operand = parameter_for(module, c, fusion, operand);
  return module.computations[static_cast<size_t>(c.insts[static_cast<size_t>(fusion)].called[0])]
      .add(std::move(copy));
}

}  // namespace

int make_fusion(Module& module, Computation& c, int id, Op kind) {
  const int number = static_cast<int>(module.computations.size());
  module.computations.emplace_back();
  const int fusion =
      c.add({.op = kind, .types = c.insts[static_cast<size_t>(id)].types, .called = {number}});
  module.computations.back().root = copy_inside(module, c, fusion, id);
  c.replace_uses(id, fusion);
  c.remove(id);
  return fusion;
}

void fuse_operand(Module& module, Computation& c, int fusion, int producer) {
  Computation& inside =
      module.computations[static_cast<size_t>(c.insts[static_cast<size_t>(fusion)].called[0])];
  const int made = copy_inside(module, c, fusion, producer);
  std::vector<int>& operands = c.insts[static_cast<size_t>(fusion)].operands;
  const auto place = std::find(operands.begin(), operands.end(), producer) - operands.begin();
  const int param = inside.params[static_cast<size_t>(place)];
  inside.replace_uses(param, made);
  inside.insts[static_cast<size_t>(param)].is_dead = true;
  inside.params.erase(inside.params.begin() + place);
  operands.erase(operands.begin() + place);
  drop_user(c.insts[static_cast<size_t>(producer)].users, fusion);
  c.remove(producer);
}

int fuse_user(Module& module, Computation& c, int fusion, int user) {
  // What the user reads beside the fusion becomes operands; the fusion is made anew behind it, so
  // that operands have smaller numbers than users.
  Inst copy = c.insts[static_cast<size_t>(fusion)];
  const int root = module.computations[static_cast<size_t>(copy.called[0])].root;
  copy.types = c.insts[static_cast<size_t>(user)].types;
  const int made = c.add(std::move(copy));
  Inst inner = c.insts[static_cast<size_t>(user)];
  for (int& operand : inner.operands)
    operand = operand == fusion ? root : parameter_for(module, c, made, operand);
  Computation& inside =
      module.computations[static_cast<size_t>(c.insts[static_cast<size_t>(made)].called[0])];
  inside.root = inside.add(std::move(inner));
  c.replace_uses(user, made);
  c.remove(user);
  return made;
}

bool is_expensive(const Computation& c, const Inst& inst) {
  switch (inst.op) {
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Transpose:
    case Op::Reorder:
    case Op::Slice:
    case Op::Pad:
    case Op::Reverse:
    case Op::Concatenate:
    case Op::DynamicSlice:
    case Op::Update:
    case Op::Constant:
    case Op::Iota:
    case Op::Copy:
    case Op::Element:
    case Op::Tuple:
      return false;
    case Op::Elementwise:
      break;
    default:
      return true;
  }
  static const std::vector<const OpDef*> kSlow = {
      &def_of<op::Exponential>(), &def_of<op::Expm1>(),     &def_of<op::Log>(),
      &def_of<op::Log1p>(),       &def_of<op::Tanh>(),      &def_of<op::Sqrt>(),
      &def_of<op::Rsqrt>(),       &def_of<op::Cbrt>(),      &def_of<op::Power>(),
      &def_of<op::Divide>(),      &def_of<op::Remainder>(), &def_of<op::Atan2>(),
      &def_of<op::Erf>()};
  if (inst.def == &def_of<op::Convert>())
    return inst.type().dtype == DType::BF16 &&
           c.insts[static_cast<size_t>(inst.operands[0])].type().dtype == DType::F32;
  return std::find(kSlow.begin(), kSlow.end(), inst.def) != kSlow.end();
}

}  // namespace cleave::analyze::hlo
