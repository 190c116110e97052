#include <algorithm>
#include <map>
#include <set>

#include "cleave/analyze/xla_cpu/hlo.h"
#include "cleave/ops/op.h"

namespace cleave::analyze::hlo {
namespace {

constexpr int64_t kMostEmitted = 15;  // copies of an op's code in a kernel
constexpr int64_t kMostReductions = 5;
constexpr size_t kMostConcatenated = 8;
constexpr int64_t kShortRow = 128;
constexpr int64_t kSmallVector = 16 * 1024;  // bytes

bool is_loop_op(Op op) {
  switch (op) {
    case Op::Elementwise:
    case Op::Copy:
    case Op::Reshape:
    case Op::Broadcast:
    case Op::Concatenate:
    case Op::DynamicSlice:
    case Op::Update:
    case Op::Gather:
    case Op::Iota:
    case Op::Pad:
    case Op::Reduce:
    case Op::Reverse:
    case Op::Slice:
    case Op::Transpose:
    case Op::Reorder:
    case Op::Constant:
      return true;
    default:
      return false;
  }
}

// Ops whose code branches or loops for every element, so that a kernel computes it once at most.
bool has_own_loop(Op op) {
  return op == Op::Concatenate || op == Op::Update || op == Op::Pad || op == Op::Reduce;
}

enum class Use : uint8_t { None, Once, Moved, Again };

// How an instruction uses the elements of operand i.
Use use_of(const Inst& inst, size_t i) {
  switch (inst.op) {
    case Op::Reshape:
    case Op::Concatenate:
    case Op::Reverse:
    case Op::Slice:
    case Op::Transpose:
    case Op::Reorder:
    case Op::Gather:
      return Use::Moved;
    case Op::Pad:
    case Op::Reduce:
      return 2 * i >= inst.operands.size() ? Use::Again : Use::Moved;
    case Op::DynamicSlice:
      return i > 0 ? Use::Again : Use::Moved;
    case Op::Update:
      return i == 0 ? Use::Once : i == 1 ? Use::Moved : Use::Again;
    case Op::Elementwise:
    case Op::Copy:
      return Use::Once;
    default:
      return Use::Again;
  }
}

class LoopFuser {
 public:
  LoopFuser(Module& module, Computation& computation) : module_(module), c_(computation) {}

  void run() {
    order_ = c_.post_order();
    place_.assign(c_.insts.size(), -1);
    for (size_t i = 0; i < order_.size(); ++i)
      place_[static_cast<size_t>(order_[i])] = static_cast<int>(i);
    find_alone();
    while (!order_.empty()) {
      const int id = order_.back();
      order_.pop_back();
      if (id < 0) continue;
      place_[static_cast<size_t>(id)] = -1;
      if (!inst(id).is_dead && can_be_fused(id)) fuse_one(id);
    }
  }

 private:
  Inst& inst(int id) { return c_.insts[static_cast<size_t>(id)]; }
  const Inst& inst(int id) const { return c_.insts[static_cast<size_t>(id)]; }

  bool can_be_fused(int id) const {
    const Op op = inst(id).op;
    return op != Op::Parameter && op != Op::Loop && op != Op::Branches && op != Op::Tuple &&
           op != Op::Element && op != Op::Barrier && op != Op::Collective && op != Op::Sort &&
           op != Op::Other && op != Op::Library;
  }

  void fuse_one(int id) {
    std::vector<int> operands;
    for (int operand : inst(id).operands)
      if (place_[static_cast<size_t>(operand)] >= 0 &&
          std::find(operands.begin(), operands.end(), operand) == operands.end())
        operands.push_back(operand);
    std::sort(operands.begin(), operands.end(), [&](int a, int b) {
      return place_[static_cast<size_t>(a)] > place_[static_cast<size_t>(b)];
    });
    for (int operand : operands) {
      if (!can_be_fused(operand) || alone_.contains(operand) || !should_fuse(id, operand)) continue;
      int fusion = id;
      if (inst(id).op != Op::Fusion) {
        fusion = make_fusion(module_, c_, id, Op::Fusion);
        place_.resize(c_.insts.size(), -1);
        alone_.erase(id);
      }
      fuse_operand(module_, c_, fusion, operand);
      if (inst(operand).is_dead) {
        order_[static_cast<size_t>(place_[static_cast<size_t>(operand)])] = -1;
        place_[static_cast<size_t>(operand)] = -1;
      }
      place_[static_cast<size_t>(fusion)] = static_cast<int>(order_.size());
      order_.push_back(fusion);
      return;
    }
  }

  // Concatenations of long rows, or of many operands, are copied row by row.
  bool is_long_concatenate(int id) const {
    const Inst& now = inst(id);
    if (now.op != Op::Concatenate) return false;
    if (now.operands.size() > kMostConcatenated) return true;
    const size_t rank = now.shape().size();
    return rank > 1 && now.dims[0] == static_cast<int64_t>(rank) - 1 &&
           now.shape().back() >= kShortRow;
  }

  const Computation& inside(int fusion) const {
    return module_.computations[static_cast<size_t>(inst(fusion).called[0])];
  }

  // How the kernel uses the elements of a value inside: once in place, or several times.
  Use use_inside(const Computation& c, int id, std::map<int, Use>& known) const {
    const auto before = known.find(id);
    if (before != known.end()) return before->second;
    Use all = id == c.root ? Use::Once : Use::None;
    for (int user : c.insts[static_cast<size_t>(id)].users) {
      const Inst& by = c.insts[static_cast<size_t>(user)];
      for (size_t i = 0; i < by.operands.size(); ++i) {
        if (by.operands[i] != id) continue;
        Use use = use_of(by, i);
        const Use after = use_inside(c, user, known);
        if (after == Use::None) continue;
        use = std::max(use, after);
        if (all != Use::None && (use == Use::Moved || all == Use::Moved)) use = Use::Again;
        all = std::max(all, use);
      }
    }
    known[id] = all;
    return all;
  }

  bool reuses(int consumer, int operand) const {
    const Inst& now = inst(consumer);
    if (now.op != Op::Fusion) {
      for (size_t i = 0; i < now.operands.size(); ++i)
        if (now.operands[i] == operand && use_of(now, i) == Use::Again) return true;
      return false;
    }
    const auto place = static_cast<size_t>(
        std::find(now.operands.begin(), now.operands.end(), operand) - now.operands.begin());
    const Computation& c = inside(consumer);
    std::map<int, Use> known;
    return use_inside(c, c.params[place], known) == Use::Again;
  }

  bool should_fuse(int consumer, int producer) const {
    const Inst &made = inst(producer), &used = inst(consumer);
    if (made.op == Op::Constant && !is_scalar(made.type())) return false;
    if (!is_loop_op(made.op) || made.types.size() != 1) return false;
    if (is_long_concatenate(producer) || is_long_concatenate(consumer)) return false;
    const bool expensive = is_expensive(c_, made);
    if (expensive && reuses(consumer, producer)) return false;
    if (made.users.size() > 1 && expensive && !is_widening(made)) return false;
    if (used.op == Op::Fusion && made.op == Op::Reduce &&
        count_reductions(consumer) > kMostReductions)
      return false;
    if (made.op == Op::Constant && used.op != Op::Fusion) return false;
    if (used.op == Op::Fusion && made.op != Op::Broadcast) {
      const int64_t copies = emitted(consumer, producer);
      if (copies > kMostEmitted) return false;
      if (has_own_loop(made.op) && (copies > 1 || made.users.size() > 1)) return false;
    }
    if (used.op == Op::Dot) return is_small_vector_product(consumer, producer);
    return used.op == Op::Fusion || is_loop_op(used.op);
  }

  bool is_widening(const Inst& made) const {
    return made.def == &def_of<op::Convert>() &&
           bytes_of(made.type()) > bytes_of(inst(made.operands[0]).type());
  }

  int64_t count_reductions(int fusion) const {
    const auto& insts = inside(fusion).insts;
    return std::count_if(insts.begin(), insts.end(),
                         [](const Inst& i) { return !i.is_dead && i.op == Op::Reduce; });
  }

  bool is_small_vector_product(int dot, int producer) const {
    const Inst& now = inst(dot);
    if (now.shape().size() > 1) return false;
    for (size_t i = 0; i < 2; ++i) {
      const Type& other = inst(now.operands[i]).type();
      if (now.operands[1 - i] == producer && other.rank() == 1 && bytes_of(other) < kSmallVector)
        return true;
    }
    return false;
  }

  // How often the code of an operand would be in the kernel: once for each index that it is asked
  // for. Elementwise ops ask for their own.
  int64_t emitted(int fusion, int producer) const {
    const Inst& now = inst(fusion);
    const Computation& c = inside(fusion);
    const auto place = static_cast<size_t>(
        std::find(now.operands.begin(), now.operands.end(), producer) - now.operands.begin());
    std::map<int, std::set<int>> indexing;
    std::map<int, int64_t> count;
    indexing[c.root] = {-1};
    count[-1] = 1;
    const std::vector<int> order = c.post_order();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Inst& part = c.insts[static_cast<size_t>(*it)];
      int64_t total = 0;
      for (int user : indexing[*it]) total += count[user];
      count[*it] = total;
      for (int operand : part.operands) {
        const Inst& from = c.insts[static_cast<size_t>(operand)];
        if (from.op == Op::Transpose || from.op == Op::Reorder || from.shape() == part.shape())
          indexing[operand].insert(indexing[*it].begin(), indexing[*it].end());
        else
          indexing[operand].insert(*it);
      }
    }
    return count[c.params[place]];
  }

  // Ops with several large operands are not computed twice, unless all users compute them.
  void find_alone() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const int id = *it;
      const Inst& now = inst(id);
      if (now.op == Op::Parameter || is_at_most_unary(now)) continue;
      int64_t read = 0, made = 0;
      std::set<int> operands(now.operands.begin(), now.operands.end());
      for (int operand : operands)
        for (const Type& type : inst(operand).types) read += elements_of(type);
      for (const Type& type : now.types) made += elements_of(type);
      if (read <= made) continue;
      if (can_be_fused(id) && fuses_everywhere(id)) continue;
      alone_.insert(id);
    }
  }

  static size_t true_rank(const Type& type) {
    return static_cast<size_t>(
        std::count_if(type.shape.begin(), type.shape.end(), [](int64_t d) { return d != 1; }));
  }

  bool is_at_most_unary(const Inst& now) const {
    size_t rank = 0, large = 0;
    for (const Type& type : now.types) rank = std::max(rank, true_rank(type));
    for (int operand : now.operands) {
      const Inst& from = inst(operand);
      if (from.op == Op::Broadcast || from.op == Op::Iota) continue;
      if (from.op == Op::Constant && is_scalar(from.type())) continue;
      large += (from.types.size() == 1 ? true_rank(from.type()) : 0) >= rank;
    }
    return large <= 1;
  }

  bool fuses_everywhere(int producer) {
    int last = 0;
    for (int user : inst(producer).users) last = std::max(last, place_[static_cast<size_t>(user)]);
    // What is computed from the producer, up to its last user.
    std::set<int> reached{producer};
    std::vector<int> left{producer};
    while (!left.empty()) {
      const int now = left.back();
      left.pop_back();
      for (int user : inst(now).users)
        if (place_[static_cast<size_t>(user)] <= last && reached.insert(user).second)
          left.push_back(user);
    }
    std::map<int, bool> known;
    for (int user : inst(producer).users)
      if (!fuses_on_all_paths(producer, user, reached, known)) return false;
    return true;
  }

  bool fuses_on_all_paths(int producer, int consumer, const std::set<int>& reached,
                          std::map<int, bool>& known) {
    if (consumer == producer) return true;
    if (!can_be_fused(consumer)) return false;
    const auto before = known.find(consumer);
    if (before != known.end()) return before->second;
    bool all = true;
    for (int operand : inst(consumer).operands) {
      if (!reached.contains(operand)) continue;
      if (alone_.contains(operand) || !should_fuse(consumer, operand) ||
          !fuses_on_all_paths(producer, operand, reached, known)) {
        all = false;
        break;
      }
    }
    known[consumer] = all;
    return all;
  }

  Module& module_;
  Computation& c_;
  std::vector<int> order_;
  std::vector<int> place_;  // in order_, -1 if it is not there
  std::set<int> alone_;
};

}  // namespace

void fuse_loops(Module& module) {
  const size_t count = module.computations.size();
  std::set<size_t> fused;
  for (size_t i = 0; i < count; ++i)
    for (const Inst& inst : module.computations[i].insts)
      if (inst.op == Op::Library) fused.insert(static_cast<size_t>(inst.called[0]));
  for (size_t i = 0; i < count; ++i)
    if (!fused.contains(i)) LoopFuser(module, module.computations[i]).run();
}

}  // namespace cleave::analyze::hlo
