#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "cleave/compile/epilogue.h"
#include "cleave/compile/fuse.h"
#include "cleave/compile/fused_loop.h"
#include "cleave/core/aligned.h"
#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/loop_pairs.h"
#include "cleave/kernels/loop_templates.h"
#include "cleave/kernels/shape.h"
#include "cleave/ops/literal_array.h"
#include "cleave/ops/op.h"
#include "cleave/ops/reduce/reduction_body.h"

namespace cleave {
namespace {

BinaryOp operator_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::Sum:
      return BinaryOp::Add;
    case Reducer::Prod:
      return BinaryOp::Multiply;
    case Reducer::Max:
      return BinaryOp::Maximum;
    case Reducer::Min:
      return BinaryOp::Minimum;
    case Reducer::And:
      return BinaryOp::And;
    case Reducer::Or:
      return BinaryOp::Or;
    default:
      return BinaryOp::Xor;
  }
}

}  // namespace

// Makes the loops of one fusion: levels of values, leaves, instructions, then scratch memory.
class FusedLoopBuilder {
 public:
  FusedLoopBuilder(FusedLoop& loop, const Graph& graph, const Node& fusion,
                   std::span<const StridedType> operands)
      : loop_(loop),
        graph_(graph),
        body_(graph.region(fusion.regions[0])),
        operands_(operands),
        returned_(graph.node(body_.nodes.back()).operands) {}

  void build() {
    find_space();
    for (size_t i = 0; i < body_.args.size(); ++i) argument_[body_.args[i].index] = i;
    for (size_t i = 0; i < returned_.size(); ++i) result_.emplace(returned_[i].index, i);
    for (NodeId id : body_.nodes) {
      const Node& node = graph_.node(id);
      if (node.def->has(kTerminator)) break;
      if (is<op::Reduce>(node))
        reduce(node);
      else if (is<op::Reshape>(node))
        reshape(node);
      else if (node.def->has(kElementwise))
        elementwise(node);
      else if (is_product(node))  // computed before: the last operand
        argument_[node.results[0].index] = operands_.size() - 1;
      else
        leaf_nodes_[node.results[0].index] = &node;
    }
    internal_check(loop_.slots_.size() <= 512, "a fusion of too many values");
    pair_loops();
    find_in_place();
    choose_block();
    place_scratch();
  }

 private:
  using Slot = FusedLoop::Slot;
  using Leaf = FusedLoop::Leaf;
  using Instruction = FusedLoop::Instruction;

  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  DType dtype(ValueId value) const { return graph_.type(value).dtype; }

  static bool is_member(const Node& node) {
    return node.def->has(kElementwise) || is<op::Reshape>(node);
  }

  // N = R * C is the largest count of elements that an op has or reads; C is that of the
  // reductions.
  void find_space() {
    int64_t size = 1, columns = 0;
    for (NodeId id : body_.nodes) {
      const Node& node = graph_.node(id);
      if (is<op::Reduce>(node)) {
        FusionLevel level;
        int64_t asked = 0;
        reduction_level(shape(node.operands[0]), node.attrs.get_ints_or_empty("dimensions"), level,
                        asked);
        columns = std::max(columns, asked);
        size = std::max(size, num_elements(shape(node.operands[0])));
      } else if (is_member(node)) {
        size = std::max(size, num_elements(shape(node.results[0])));
      }
    }
    loop_.linear_ = columns == 0;
    loop_.columns_ = columns == 0 ? 1 : columns;
    loop_.rows_ = size / loop_.columns_;
    size_ = size;
  }

  // ---- slots ----

  uint32_t add_slot(Slot slot) {
    loop_.slots_.push_back(slot);
    return static_cast<uint32_t>(loop_.slots_.size() - 1);
  }
  uint32_t scratch(DType type, bool rows) {
    return add_slot({Slot::Kind::Scratch, 0, 0, byte_size(type), rows});
  }
  // Where an op writes a value: the result itself where it is one.
  uint32_t target(ValueId value, bool rows) {
    const auto it = result_.find(value.index);
    if (it == result_.end()) return scratch(dtype(value), rows);
    return add_slot({Slot::Kind::Result, it->second, 0, byte_size(dtype(value)), rows});
  }

  uint32_t emit(Instruction::Kind kind, Loop loop, std::vector<uint32_t> in, uint32_t out,
                bool rows) {
    Instruction op;
    op.kind = kind;
    op.loop = loop;
    op.num_in = static_cast<uint8_t>(in.size());
    std::copy(in.begin(), in.end(), op.in.begin());
    op.out = out;
    op.rows = rows;
    loop_.instructions_.push_back(op);
    return out;
  }

  // The value as a slot over elements or rows.
  uint32_t slot_of(ValueId value, bool rows) {
    const auto it = slot_.find(value.index);
    if (it != slot_.end()) return it->second;
    const uint32_t slot = rows || !spread_source(value) ? leaf(value, rows) : spread(value);
    return slot_[value.index] = slot;
  }

  // A broadcast of rows that are computed here.
  const Node* spread_source(ValueId value) const {
    const auto it = leaf_nodes_.find(value.index);
    if (it == leaf_nodes_.end() || it->second->operands.empty()) return nullptr;
    return slot_.count(it->second->operands[0].index) && is_rows(it->second->operands[0])
               ? it->second
               : nullptr;
  }
  bool is_rows(ValueId value) const {
    const auto it = slot_.find(value.index);
    return it != slot_.end() && loop_.slots_[it->second].rows && computed_.count(value.index);
  }
  uint32_t spread(ValueId value) {
    const ValueId rows = leaf_nodes_.at(value.index)->operands[0];
    return emit(Instruction::Kind::SpreadRows, nullptr, {slot_.at(rows.index)},
                scratch(dtype(value), false), false);
  }

  uint32_t leaf(ValueId value, bool rows) {
    Leaf leaf;
    leaf.rows = rows;
    leaf.size = byte_size(dtype(value));
    collapse(leaf, shape(value), set_source(leaf, value));
    loop_.leaves_.push_back(std::move(leaf));
    return add_slot({Slot::Kind::Leaf, loop_.leaves_.size() - 1, 0, byte_size(dtype(value)), rows});
  }

  // Where the leaf's elements are: an operand of the fusion, or a constant inside it. Gives the
  // strides with which they make the value.
  Shape set_source(Leaf& leaf, ValueId value) {
    const auto argument = argument_.find(value.index);
    if (argument != argument_.end()) {
      leaf.operand = static_cast<int>(argument->second);
      return operands_[argument->second].strides;
    }
    const auto it = leaf_nodes_.find(value.index);
    internal_check(it != leaf_nodes_.end(), "a fusion broadcasts what it computes");
    const Node& node = *it->second;
    Shape strides(shape(value).size(), 0);
    if (is<op::BroadcastInDim>(node)) {
      const ValueId source = node.operands[0];
      const Shape inner = set_source(leaf, source);
      const auto dims = node.attrs.get_ints_or_empty("broadcast_dimensions");
      for (size_t d = 0; d < dims.size(); ++d)
        if (shape(source)[d] != 1) strides[dims[d]] = inner[d];
    } else if (is<op::Iota>(node)) {
      const auto dim = static_cast<size_t>(node.attrs.get_int("iota_dimension"));
      leaf.array = iota(dtype(value), {shape(value)[dim]}, 0).contiguous();
      strides[dim] = 1;
    } else {
      leaf.array = constant(node);
    }
    return strides;
  }
  // The one element of a constant.
  static Array constant(const Node& node) {
    const Array array = array_of(node.attrs.get_literal("value"));
    return array.reshape({num_elements(array.shape())}).slice({0}, {1}).copy();
  }

  static void collapse(Leaf& leaf, const Shape& sizes, const Shape& strides) {
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 1) continue;
      if (!leaf.dims.empty() && leaf.dims.back().stride == strides[d] * sizes[d])
        leaf.dims.back() = {leaf.dims.back().size * sizes[d], strides[d]};
      else
        leaf.dims.push_back({sizes[d], strides[d]});
    }
    const bool splat = std::all_of(leaf.dims.begin(), leaf.dims.end(),
                                   [](const auto& dim) { return dim.stride == 0; });
    if (splat)
      leaf.kind = Leaf::Kind::Splat;
    else if (leaf.dims.size() > 1 || leaf.dims[0].stride != 1)
      leaf.kind = Leaf::Kind::Packed;
    internal_check(leaf.dims.size() <= 12, "a tensor of too many dimensions in a fusion");
  }

  // The slot as another dtype; conversions are made once.
  uint32_t converted(uint32_t slot, DType from, DType to, bool rows) {
    if (from == to) return slot;
    const auto key = std::pair(slot, to);
    const auto it = converted_.find(key);
    if (it != converted_.end()) return it->second;
    return converted_[key] = emit(Instruction::Kind::Loop, convert_loop(from, to), {slot},
                                  scratch(to, rows), rows);
  }

  // ---- ops ----

  void elementwise(const Node& node) {
    const bool rows = is_row_op(node);
    const ElementLoop loop = node.def->loop(graph_, node);
    std::vector<uint32_t> in;
    for (size_t i = 0; i < node.operands.size(); ++i)
      in.push_back(
          converted(slot_of(node.operands[i], rows), dtype(node.operands[i]), loop.in[i], rows));
    const ValueId result = node.results[0];
    if (loop.out == dtype(result)) {
      set(result, emit(Instruction::Kind::Loop, loop.loop, in, target(result, rows), rows));
    } else {
      const uint32_t wide =
          emit(Instruction::Kind::Loop, loop.loop, in, scratch(loop.out, rows), rows);
      set(result, emit(Instruction::Kind::Loop, convert_loop(loop.out, dtype(result)), {wide},
                       target(result, rows), rows));
    }
  }

  bool is_row_op(const Node& node) const {
    return !loop_.linear_ && num_elements(shape(node.results[0])) != size_;
  }

  void reshape(const Node& node) {
    const bool rows = is_row_op(node);
    const uint32_t from = slot_of(node.operands[0], rows);
    const ValueId result = node.results[0];
    if (result_.count(result.index))
      set(result, emit(Instruction::Kind::Copy, nullptr, {from}, target(result, rows), rows));
    else
      set(result, from);
  }

  void set(ValueId value, uint32_t slot) {
    slot_[value.index] = slot;
    computed_[value.index] = true;
  }

  void reduce(const Node& node) {
    const ValueId source = node.operands[0], result = node.results[0];
    const Reducer reducer = (*recognise_reducers(graph_, node.regions[0]))[0];
    const DType stored = dtype(result), wide = compute_dtype(stored);
    FusionLevel level;
    int64_t columns = 0;
    reduction_level(shape(source), node.attrs.get_ints_or_empty("dimensions"), level, columns);
    if (level != FusionLevel::Rows && !result_.count(result.index)) return;  // nobody reads it
    const uint32_t in = converted(slot_of(source, false), stored, wide, false);
    const uint32_t init = leaf(node.operands[1], true);
    if (level == FusionLevel::Rows) {
      const uint32_t start = converted(init, stored, wide, true);
      const uint32_t out = stored == wide ? target(result, true) : scratch(wide, true);
      emit(Instruction::Kind::FoldRows, nullptr, {in}, out, true);
      Instruction& op = loop_.instructions_.back();
      op.dtype = wide;
      op.reducer = reducer;
      op.init = start;
      set(result, stored == wide ? out
                                 : emit(Instruction::Kind::Loop, convert_loop(wide, stored), {out},
                                        target(result, true), true));
      return;
    }
    FusedLoop::Accumulator accumulator;
    accumulator.result = result_.at(result.index);
    accumulator.count = num_elements(shape(result));
    accumulator.dtype = wide;
    accumulator.stored = stored;
    accumulator.fold =
        RunningFold(wide, reducer, accumulator.count, binary_loop(operator_of(reducer), wide).loop);
    accumulator.init = init;
    const Array identity = reduce_identity(reducer, wide);
    accumulator.identity.assign(identity.raw(), identity.raw() + identity.num_bytes());
    accumulator.offset = loop_.accumulator_bytes_;
    loop_.accumulator_bytes_ += aligned(accumulator.fold.bytes());
    // Where the result is wide while it is still to be rounded.
    if (stored != wide)
      loop_.accumulator_bytes_ += aligned(static_cast<size_t>(accumulator.count * byte_size(wide)));
    emit(level == FusionLevel::Columns ? Instruction::Kind::FoldColumns
                                       : Instruction::Kind::FoldTotal,
         nullptr, {in}, 0, false);
    Instruction& op = loop_.instructions_.back();
    op.dtype = wide;
    op.reducer = reducer;
    op.accumulator = loop_.accumulators_.size();
    loop_.accumulators_.push_back(std::move(accumulator));
  }

  // Arithmetic whose result only one other op of the kind reads runs in one loop with it.
  void pair_loops() {
    std::vector<Instruction>& ops = loop_.instructions_;
    std::vector<int> uses(loop_.slots_.size());
    std::vector<size_t> writer(loop_.slots_.size(), ops.size());
    for (size_t i = 0; i < ops.size(); ++i) {
      for (size_t k = 0; k < ops[i].num_in; ++k) ++uses[ops[i].in[k]];
      if (ops[i].kind == Instruction::Kind::FoldRows) ++uses[ops[i].init];
      if (ops[i].kind == Instruction::Kind::Loop) writer[ops[i].out] = i;
    }
    std::vector<bool> gone(ops.size());
    for (Instruction& op : ops) {
      if (op.kind != Instruction::Kind::Loop || op.num_in != 2) continue;
      for (size_t k = 0; k < 2 && op.num_in == 2; ++k) {
        const uint32_t slot = op.in[k];
        if (uses[slot] != 1 || writer[slot] == ops.size()) continue;
        const Instruction& first = ops[writer[slot]];
        if (loop_.slots_[slot].kind != Slot::Kind::Scratch || first.num_in != 2 ||
            first.rows != op.rows)
          continue;
        const Loop pair = paired_loop(first.loop, op.loop, k == 0);
        if (!pair) continue;
        op.in = {first.in[0], first.in[1], op.in[1 - k]};
        op.num_in = 3;
        op.loop = pair;
        gone[writer[slot]] = true;
      }
    }
    size_t kept = 0;
    for (size_t i = 0; i < ops.size(); ++i)
      if (!gone[i]) ops[kept++] = ops[i];
    ops.resize(kept);
  }

  // ---- memory ----

  // An operand whose last reader runs no later than the writer of a result of its size.
  void find_in_place() {
    for (size_t o = 0; o < operands_.size(); ++o) {
      size_t last = 0;
      int64_t size = 0;
      bool rows = false, direct = true, read = false;
      for (size_t l = 0; l < loop_.leaves_.size(); ++l) {
        if (loop_.leaves_[l].operand != static_cast<int>(o)) continue;
        direct &= loop_.leaves_[l].kind == Leaf::Kind::Direct && !read;
        read = true;
        rows = loop_.leaves_[l].rows;
        size = loop_.leaves_[l].size;
        for (size_t i = 0; i < loop_.instructions_.size(); ++i)
          if (reads_leaf(loop_.instructions_[i], l)) last = i;
      }
      if (!direct || !read) continue;
      for (size_t i = last; i < loop_.instructions_.size(); ++i) {
        const Instruction& op = loop_.instructions_[i];
        if (op.kind == Instruction::Kind::FoldColumns || op.kind == Instruction::Kind::FoldTotal)
          continue;
        const Slot& out = loop_.slots_[op.out];
        if (out.kind == Slot::Kind::Result && out.size == size && out.rows == rows)
          loop_.in_place_.push_back({o, out.index});
      }
    }
  }
  bool reads_leaf(const Instruction& op, size_t leaf) const {
    auto is_leaf = [&](uint32_t slot) {
      return loop_.slots_[slot].kind == Slot::Kind::Leaf && loop_.slots_[slot].index == leaf;
    };
    for (size_t k = 0; k < op.num_in; ++k)
      if (is_leaf(op.in[k])) return true;
    return op.kind == Instruction::Kind::FoldRows && is_leaf(op.init);
  }

  bool needs_scratch(const Slot& slot) const {
    return slot.kind == Slot::Kind::Scratch ||
           (slot.kind == Slot::Kind::Leaf && loop_.leaves_[slot.index].kind != Leaf::Kind::Direct);
  }

  // As many rows as keep what is live in the first-level cache, but blocks of some length. Where
  // operands and results come from memory, short ones: the processor fetches ahead along what it
  // reads, and while a block is computed from scratch memory it stops doing so.
  void choose_block() {
    constexpr int64_t kCache = 12 << 10, kShortest = 512, kLongest = 4096, kStreamed = 256;
    constexpr int64_t kManyBytes = 4 << 20;
    int64_t bytes = 0, streamed = 0;
    for (const Slot& slot : loop_.slots_) {
      if (slot.rows) continue;
      bytes += slot.size;
      if (!needs_scratch(slot)) streamed += slot.size;
    }
    const bool streams = loop_.instructions_.size() > 1 && streamed * size_ >= kManyBytes;
    const int64_t elements =
        streams ? kStreamed
                : std::clamp(kCache / std::max<int64_t>(bytes / 2, 4), kShortest, kLongest);
    loop_.block_ = std::clamp<int64_t>(elements / 64 * 64 / loop_.columns_, 1, loop_.rows_);
  }

  // Scratch slots share memory where their lives do not meet. Packed and splat leaves are filled
  // before the first op, and keep theirs.
  void place_scratch() {
    const size_t count = loop_.instructions_.size();
    std::vector<size_t> last(loop_.slots_.size(), 0);
    for (size_t i = 0; i < count; ++i) {
      const Instruction& op = loop_.instructions_[i];
      for (size_t k = 0; k < op.num_in; ++k) last[op.in[k]] = i;
      if (op.kind == Instruction::Kind::FoldRows) last[op.init] = i;
    }
    std::multimap<size_t, size_t> free;  // bytes -> offset
    auto bytes_of = [&](const Slot& slot) {
      return aligned(
          static_cast<size_t>(slot.size * loop_.block_ * (slot.rows ? 1 : loop_.columns_)));
    };
    auto take = [&](Slot& slot) {
      const size_t bytes = bytes_of(slot);
      const auto it = free.find(bytes);
      if (it != free.end()) {
        slot.offset = it->second;
        free.erase(it);
      } else {
        slot.offset = loop_.scratch_;
        loop_.scratch_ += bytes;
      }
    };
    for (Slot& slot : loop_.slots_)
      if (slot.kind == Slot::Kind::Leaf && needs_scratch(slot)) take(slot);
    std::vector<bool> placed(loop_.slots_.size());
    for (size_t i = 0; i < count; ++i) {
      const Instruction& op = loop_.instructions_[i];
      const bool folds =
          op.kind == Instruction::Kind::FoldColumns || op.kind == Instruction::Kind::FoldTotal;
      if (!folds && loop_.slots_[op.out].kind == Slot::Kind::Scratch && !placed[op.out]) {
        take(loop_.slots_[op.out]);
        placed[op.out] = true;
      }
      for (size_t s = 0; s < loop_.slots_.size(); ++s)
        if (placed[s] && last[s] == i && loop_.slots_[s].kind == Slot::Kind::Scratch &&
            (folds || s != op.out))
          free.emplace(bytes_of(loop_.slots_[s]), loop_.slots_[s].offset);
    }
    loop_.scratch_ = aligned(loop_.scratch_ + 64);
  }

  FusedLoop& loop_;
  const Graph& graph_;
  const Region& body_;
  std::span<const StridedType> operands_;
  const std::vector<ValueId>& returned_;
  int64_t size_ = 1;
  std::map<uint32_t, size_t> argument_, result_;  // by value
  std::map<uint32_t, const Node*> leaf_nodes_;    // constants, iotas, broadcasts by result
  std::map<uint32_t, uint32_t> slot_;             // by value
  std::map<uint32_t, bool> computed_;
  std::map<std::pair<uint32_t, DType>, uint32_t> converted_;
};

FusedLoop::FusedLoop(const Graph& graph, const Node& fusion,
                     std::span<const StridedType> operands) {
  FusedLoopBuilder(*this, graph, fusion, operands).build();
}

}  // namespace cleave
