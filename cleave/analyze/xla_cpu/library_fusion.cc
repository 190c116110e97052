#include <algorithm>
#include <queue>
#include <set>

#include "cleave/analyze/xla_cpu/hlo.h"
#include "cleave/ops/op.h"

namespace cleave::analyze::hlo {
namespace {

constexpr int64_t kMostOps = 100;  // of a fusion
constexpr size_t kMostDims = 8;

bool is_library_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64 || dtype == DType::BF16;
}

// Products, reductions and what lies between them, as XLA gives them to YNNPACK.
class LibraryFuser {
 public:
  LibraryFuser(Module& module, Computation& computation) : module_(module), c_(computation) {}

  void run() {
    std::vector<int> starters;
    const std::vector<int> order = c_.post_order();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Op op = inst(*it).op;
      if (op == Op::Dot || op == Op::Convolution || op == Op::Reduce || op == Op::Window)
        starters.push_back(*it);
    }
    for (int id : starters) {
      if (fused_.contains(id) || inst(id).is_dead || !takes(id)) continue;
      fused_.insert(id);
      const bool grows = inst(id).op == Op::Reduce || inst(id).op == Op::Window;
      int fusion = make_fusion(module_, c_, id, Op::Library);
      while (grows && grow(fusion)) {
      }
    }
  }

 private:
  Inst& inst(int id) { return c_.insts[static_cast<size_t>(id)]; }

  bool is_large(int id) {
    if (elements_of(inst(id).type()) >= kFewElements) return true;
    for (int operand : inst(id).operands)
      if (elements_of(inst(operand).type()) >= kFewElements) return true;
    return false;
  }

  bool takes(int id) {
    const Inst& now = inst(id);
    if (now.types.size() != 1 || now.shape().size() > kMostDims) return false;
    const DType dtype = now.type().dtype;
    switch (now.op) {
      case Op::Constant:
      case Op::Reshape:
      case Op::Transpose:
      case Op::Broadcast:
        return is_library_float(dtype) || dtype == DType::I32 || dtype == DType::I8 ||
               dtype == DType::U8;
      case Op::Iota:
        return dtype == DType::F32 || dtype == DType::I32;
      case Op::Pad:
        return is_library_float(dtype);
      case Op::Dot:
        return takes_dot(now);
      case Op::Convolution:
        return takes_convolution(now);
      case Op::Reduce:
      case Op::Window:
        return takes_reduction(id);
      case Op::Elementwise:
        return is_large(id) && takes_elementwise(now);
      default:
        return false;
    }
  }

  bool takes_dot(const Inst& dot) {
    const DType dtype = dot.type().dtype;
    const Type &l = inst(dot.operands[0]).type(), &r = inst(dot.operands[1]).type();
    if (l.dtype != r.dtype || !is_library_float(l.dtype)) return false;
    if (dtype != l.dtype && !(l.dtype == DType::BF16 && dtype == DType::F32)) return false;
    const size_t batch = dot.shape().size() - std::min<size_t>(2, dot.shape().size());
    if (l.rank() != batch + 2 || r.rank() != batch + 2 || dot.is_lhs_turned) return false;
    const int64_t m = dot.shape()[batch], n = dot.shape()[batch + 1], k = l.shape.back();
    return m > 1 && n > 1 && std::max({m, n, k}) >= 8;
  }

  bool takes_convolution(const Inst& now) {
    const Type &in = inst(now.operands[0]).type(), &kernel = inst(now.operands[1]).type();
    if (!now.is_taken || now.shape().size() != 4 || now.type().dtype != DType::F32) return false;
    if (std::max(in.shape[3], now.shape()[3]) <= 16) return false;
    for (size_t d = 0; d < 2; ++d)
      if (now.shape()[d + 1] > in.shape[d + 1] || kernel.shape[d] > in.shape[d + 1]) return false;
    return now.detail.find("lhs_dilation") == std::string::npos;
  }

  bool takes_reduction(int id) {
    const Inst& now = inst(id);
    return now.is_taken && now.operands.size() == 2 && is_library_float(now.type().dtype) &&
           (now.type().dtype != DType::BF16 || !now.adds) && is_large(id) && now.op == Op::Reduce &&
           !now.dims.empty();
  }

  bool takes_elementwise(const Inst& now) {
    static const std::vector<const OpDef*> kKnown = {&def_of<op::Abs>(),
                                                     &def_of<op::Ceil>(),
                                                     &def_of<op::Convert>(),
                                                     &def_of<op::Erf>(),
                                                     &def_of<op::Exponential>(),
                                                     &def_of<op::Expm1>(),
                                                     &def_of<op::Floor>(),
                                                     &def_of<op::Log>(),
                                                     &def_of<op::Log1p>(),
                                                     &def_of<op::Negate>(),
                                                     &def_of<op::RoundNearestEven>(),
                                                     &def_of<op::Rsqrt>(),
                                                     &def_of<op::Sign>(),
                                                     &def_of<op::Sqrt>(),
                                                     &def_of<op::Tanh>(),
                                                     &def_of<op::Add>(),
                                                     &def_of<op::Divide>(),
                                                     &def_of<op::Maximum>(),
                                                     &def_of<op::Minimum>(),
                                                     &def_of<op::Multiply>(),
                                                     &def_of<op::Power>(),
                                                     &def_of<op::Subtract>()};
    auto is_known = [](DType d) { return is_library_float(d) || d == DType::I8 || d == DType::U8; };
    for (int operand : now.operands)
      if (!is_known(inst(operand).type().dtype)) return false;
    return is_known(now.type().dtype) &&
           std::find(kKnown.begin(), kKnown.end(), now.def) != kKnown.end();
  }

  enum class Way : uint8_t { Up, Down, Both };

  void add_candidates(int fusion, int from, Way way, std::queue<std::pair<int, Way>>& queue,
                      std::set<int>& visited) {
    if (way != Way::Down)
      for (int operand : inst(from).operands) {
        const std::vector<int>& users = inst(operand).users;
        const bool alone = std::all_of(users.begin(), users.end(), [&](int user) {
          return user == fusion || user == from || fused_.contains(user);
        });
        if (fused_.contains(operand) || visited.contains(operand) || !alone) continue;
        queue.push({operand, Way::Up});
        visited.insert(operand);
      }
    if (inst(from).users.size() != 1 || way == Way::Up) return;
    const int user = inst(from).users[0];
    if (fused_.contains(user) || visited.contains(user)) return;
    queue.push({user, Way::Down});
    visited.insert(user);
  }

  int64_t size(int fusion) {
    const auto& insts = module_.computations[static_cast<size_t>(inst(fusion).called[0])].insts;
    return std::count_if(insts.begin(), insts.end(), [](const Inst& i) { return !i.is_dead; });
  }

  // Fuses what is around it, once; gives whether anything was.
  bool grow(int& fusion) {
    std::queue<std::pair<int, Way>> queue;
    std::set<int> visited{fusion};
    add_candidates(fusion, fusion, Way::Both, queue, visited);
    bool changed = false;
    while (!queue.empty() && size(fusion) < kMostOps) {
      const auto [id, way] = queue.front();
      queue.pop();
      if (inst(id).is_dead) continue;
      if (inst(id).op == Op::Library) {
        if (size(fusion) + size(id) > kMostOps) continue;
        if (way == Way::Up) {
          merge(fusion, id);
        } else {
          merge(id, fusion);
          fusion = id;
        }
        changed = true;
        continue;
      }
      if (!takes(id)) continue;
      fused_.insert(id);
      add_candidates(fusion, id, way, queue, visited);
      if (way == Way::Up) {
        fuse_operand(module_, c_, fusion, id);
      } else {
        fusion = fuse_user(module_, c_, fusion, id);
      }
      changed = true;
    }
    return changed;
  }

  // Takes the fusion of an operand into another one.
  void merge(int fusion, int operand) {
    const Computation inner = module_.computations[static_cast<size_t>(inst(operand).called[0])];
    const std::vector<int> outside = inst(operand).operands;
    std::vector<int> made(inner.insts.size(), -1);
    for (size_t i = 0; i < inner.params.size(); ++i)
      made[static_cast<size_t>(inner.params[i])] = outside[i];
    // First as instructions around it, then fused in reverse.
    std::vector<int> added;
    for (int id : inner.post_order()) {
      const Inst& part = inner.insts[static_cast<size_t>(id)];
      if (part.is_dead || part.op == Op::Parameter) continue;
      Inst copy = part;
      for (int& o : copy.operands) o = made[static_cast<size_t>(o)];
      made[static_cast<size_t>(id)] = c_.add(std::move(copy));
      added.push_back(made[static_cast<size_t>(id)]);
    }
    c_.replace_uses(operand, made[static_cast<size_t>(inner.root)]);
    c_.remove(operand);
    for (auto it = added.rbegin(); it != added.rend(); ++it) {
      fused_.insert(*it);
      fuse_operand(module_, c_, fusion, *it);
    }
  }

  Module& module_;
  Computation& c_;
  std::set<int> fused_;
};

}  // namespace

void fuse_library_ops(Module& module) {
  if (!module.has_library) return;
  const size_t count = module.computations.size();
  for (size_t i = 0; i < count; ++i) LibraryFuser(module, module.computations[i]).run();
}

}  // namespace cleave::analyze::hlo
