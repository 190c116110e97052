#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "cleave/analyze/xla_cpu/hlo.h"
#include "cleave/analyze/xla_cpu/packing.h"

namespace cleave::analyze::hlo {
namespace {

constexpr int64_t kPointer = 8;  // bytes, for each element of a tuple

// A value of some instruction: from when on it is there, and until when.
struct Held {
  int computation = 0, inst = 0;
  int64_t bytes = 0;
  int start = 0, end = 0;
};

class BufferAssigner {
 public:
  BufferAssigner(const Module& module, const std::vector<std::vector<int>>& order)
      : module_(module), order_(order), spans_(module.computations.size()) {
    for (const Computation& c : module.computations) {
      times_.emplace_back(c.insts.size(), -1);
      values_.emplace_back(c.insts.size());
    }
  }

  Memory run() {
    make_values(module_.entry);
    last_ = clock_;
    for (size_t i = 0; i < held_.size(); ++i) join_.push_back(static_cast<int>(i));
    join_all();
    find_ends();
    return assign();
  }

 private:
  struct Buffer {
    std::vector<int> values;
    int64_t bytes = 0;
    int param = -1;  // of the entry
    bool lives_out = false, is_constant = false;
    int start = 0;
  };

  const Inst& inst(int c, int id) const {
    return module_.computations[static_cast<size_t>(c)].insts[static_cast<size_t>(id)];
  }
  std::vector<int>& values(int c, int id) {
    return values_[static_cast<size_t>(c)][static_cast<size_t>(id)];
  }
  int& time(int c, int id) { return times_[static_cast<size_t>(c)][static_cast<size_t>(id)]; }

  // Loops and branches run inside the time of their op.
  void make_values(int c) {
    spans_[static_cast<size_t>(c)].first = clock_;
    for (int id : order_[static_cast<size_t>(c)]) {
      const Inst& now = inst(c, id);
      if (now.op == Op::Loop || now.op == Op::Branches)
        for (int called : now.called) make_values(called);
      time(c, id) = clock_++;
      make_values_of(c, id);
    }
    spans_[static_cast<size_t>(c)].second = clock_;
  }

  void make_values_of(int c, int id) {
    const Inst& now = inst(c, id);
    switch (now.op) {
      case Op::Tuple:
        return;
      case Op::Reshape:
        values(c, id) = values(c, now.operands[0]);
        return;
      case Op::Element:
        values(c, id) = {values(c, now.operands[0])[static_cast<size_t>(now.number)]};
        return;
      case Op::Barrier:
        for (int operand : now.operands) values(c, id).push_back(values(c, operand)[0]);
        return;
      default:
        break;
    }
    if (now.types.size() > 1) tables_ += kPointer * static_cast<int64_t>(now.types.size());
    for (size_t i = 0; i < now.types.size(); ++i) {
      // What a loop only reads stays what it was.
      if (now.op == Op::Loop && only_reads(now, i)) {
        values(c, id).push_back(values(c, now.operands[i])[0]);
        continue;
      }
      values(c, id).push_back(static_cast<int>(held_.size()));
      const int start =
          now.op == Op::Parameter ? spans_[static_cast<size_t>(c)].first : time(c, id);
      held_.push_back({c, id, bytes_of(now.types[i]), start, start});
    }
  }

  bool only_reads(const Inst& loop, size_t i) const {
    const Computation& body = module_.computations[static_cast<size_t>(loop.called[1])];
    int made = body.insts[static_cast<size_t>(body.root)].operands[i];
    while (body.insts[static_cast<size_t>(made)].op == Op::Reshape)
      made = body.insts[static_cast<size_t>(made)].operands[0];
    return made == body.params[i];
  }

  int root_of(int value) {
    while (join_[static_cast<size_t>(value)] != value) value = join_[static_cast<size_t>(value)];
    return value;
  }
  void join(int a, int b) {
    a = root_of(a);
    b = root_of(b);
    if (a != b) join_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }

  const Computation& computation(int c) const {
    return module_.computations[static_cast<size_t>(c)];
  }

  void join_all() {
    for (size_t c = 0; c < order_.size(); ++c) {
      const int number = static_cast<int>(c);
      for (int id : order_[c]) {
        if (time(number, id) < 0) continue;
        const Inst& now = inst(number, id);
        const int updated = updated_operand(module_, computation(number), id);
        if (updated >= 0) join(values(number, id)[0], values(number, updated)[0]);
        if (now.op == Op::Loop) join_loop(number, id);
        if (now.op == Op::Branches) join_branches(number, id);
      }
    }
    const Computation& entry = computation(module_.entry);
    const std::vector<int>& results = entry.insts[static_cast<size_t>(entry.root)].operands;
    for (size_t i = 0; i < results.size(); ++i)
      if (module_.alias_of[i] >= 0)
        join(values(module_.entry, results[i])[0],
             values(module_.entry, entry.params[static_cast<size_t>(module_.alias_of[i])])[0]);
  }

  void join_loop(int c, int id) {
    const Inst& loop = inst(c, id);
    const Computation &condition = computation(loop.called[0]), &body = computation(loop.called[1]);
    const std::vector<int>& made = body.insts[static_cast<size_t>(body.root)].operands;
    for (size_t i = 0; i < loop.operands.size(); ++i) {
      const int first = values(c, loop.operands[i])[0];
      join(first, values(c, id)[i]);
      join(first, values(loop.called[0], condition.params[i])[0]);
      join(first, values(loop.called[1], body.params[i])[0]);
      join(first, values(loop.called[1], made[i])[0]);
    }
  }

  void join_branches(int c, int id) {
    const Inst& now = inst(c, id);
    for (int called : now.called) {
      const Computation& branch = computation(called);
      for (size_t i = 0; i + 1 < now.operands.size(); ++i)
        join(values(c, now.operands[i + 1])[0], values(called, branch.params[i])[0]);
      const std::vector<int>& made = branch.insts[static_cast<size_t>(branch.root)].operands;
      for (size_t i = 0; i < now.types.size(); ++i)
        join(values(c, id)[i], values(called, made[i])[0]);
    }
  }

  void extend(int value, int until) {
    Held& held = held_[static_cast<size_t>(value)];
    held.end = std::max(held.end, until);
  }

  void find_ends() {
    for (size_t c = 0; c < order_.size(); ++c) {
      const int number = static_cast<int>(c);
      for (int id : order_[c]) {
        if (time(number, id) < 0) continue;
        const Inst& now = inst(number, id);
        for (size_t i = 0; i < now.operands.size(); ++i) {
          int until = time(number, id);
          if (now.op == Op::Tuple) until = spans_[c].second;
          if (now.op == Op::Loop && !only_reads(now, i))
            until = time(now.called[1], computation(now.called[1]).params[i]);
          for (int value : values(number, now.operands[i])) extend(value, until);
        }
      }
    }
    const Computation& entry = computation(module_.entry);
    std::vector<bool> is_aliased(module_.is_donated.size());
    for (int alias : module_.alias_of)
      if (alias >= 0) is_aliased[static_cast<size_t>(alias)] = true;
    for (size_t i = 0; i < entry.params.size(); ++i)
      if (!is_aliased[i]) extend(values(module_.entry, entry.params[i])[0], last_);
  }

  std::vector<Buffer> buffers() {
    std::map<int, Buffer> by_root;
    for (size_t i = 0; i < held_.size(); ++i) {
      Buffer& buffer = by_root[root_of(static_cast<int>(i))];
      const Held& held = held_[i];
      buffer.values.push_back(static_cast<int>(i));
      buffer.bytes = std::max(buffer.bytes, held.bytes);
      const Inst& made = inst(held.computation, held.inst);
      if (held.computation == module_.entry && made.op == Op::Parameter) buffer.param = made.number;
      if (made.op == Op::Constant) buffer.is_constant = true;
    }
    const Computation& entry = computation(module_.entry);
    for (int result : entry.insts[static_cast<size_t>(entry.root)].operands)
      by_root[root_of(values(module_.entry, result)[0])].lives_out = true;
    std::vector<Buffer> all;
    for (auto& [root, buffer] : by_root) {
      normalize(buffer);
      all.push_back(std::move(buffer));
    }
    return all;
  }

  // Values of one buffer follow one another.
  void normalize(Buffer& buffer) {
    std::sort(buffer.values.begin(), buffer.values.end(), [&](int a, int b) {
      return std::pair(at(a).start, at(a).end) < std::pair(at(b).start, at(b).end);
    });
    for (size_t i = 0; i + 1 < buffer.values.size(); ++i) {
      Held &first = at(buffer.values[i]), &second = at(buffer.values[i + 1]);
      second.end = std::max(first.end, second.end);
      first.end = std::min(first.end, second.start);
    }
    buffer.start = at(buffer.values[0]).start;
  }

  Held& at(int value) { return held_[static_cast<size_t>(value)]; }

  bool shares(int user, int operand) {
    const Held &by = at(user), &from = at(operand);
    if (by.computation != from.computation) return false;
    const Inst& now = inst(by.computation, by.inst);
    if (now.op == Op::Copy) return false;
    for (size_t i = 0; i < now.operands.size(); ++i)
      if (now.operands[i] == from.inst)
        return can_share(module_, computation(by.computation), by.inst, i);
    return false;
  }

  bool interferes(int a, int b) {
    const Held &x = at(a), &y = at(b);
    if (x.start > y.end || y.start > x.end) return false;
    if (x.end == y.start) return !shares(b, a);
    if (y.end == x.start) return !shares(a, b);
    return true;
  }

  bool fits(const Buffer& buffer, const std::vector<int>& there) {
    for (int a : buffer.values)
      for (int b : there)
        if (interferes(a, b)) return false;
    return true;
  }

  // Results and donated arguments have memory of their own, which other values use while it is
  // free; the rest is laid out in one piece.
  Memory assign() {
    std::vector<Buffer> all = buffers();
    std::stable_sort(all.begin(), all.end(), [](const Buffer& a, const Buffer& b) {
      if (a.bytes != b.bytes) return a.bytes > b.bytes;
      if (a.lives_out != b.lives_out) return a.lives_out;
      return a.start < b.start;
    });
    struct Allocation {
      int64_t bytes;
      std::vector<int> values;
    };
    std::vector<Allocation> allocations;
    Memory memory;
    std::vector<Buffer> temporary;
    for (const Buffer& buffer : all) {
      if (buffer.param >= 0) {
        memory.arguments += buffer.bytes;
        if (buffer.lives_out) {
          memory.aliased += buffer.bytes;
          memory.results += buffer.bytes;
          allocations.push_back({buffer.bytes, buffer.values});
        }
        continue;
      }
      if (buffer.is_constant || buffer.bytes == 0) continue;
      bool placed = false;
      for (auto it = allocations.rbegin(); it != allocations.rend() && !placed; ++it) {
        if (buffer.bytes > it->bytes || (buffer.lives_out && buffer.bytes != it->bytes)) continue;
        if (buffer.lives_out || !fits(buffer, it->values)) continue;
        it->values.insert(it->values.end(), buffer.values.begin(), buffer.values.end());
        placed = true;
      }
      if (buffer.lives_out && !placed) {
        memory.results += buffer.bytes;
        allocations.push_back({buffer.bytes, buffer.values});
      } else if (!placed) {
        temporary.push_back(buffer);
      }
    }
    if (module_.alias_of.size() > 1)
      memory.results += kPointer * static_cast<int64_t>(module_.alias_of.size());
    memory.temporaries = tables_ + pack(temporary);
    return memory;
  }

  // A value takes the memory of an operand that ends there, if its kernel can write it in place.
  int64_t pack(const std::vector<Buffer>& temporary) {
    std::map<int, size_t> block_of;  // by value that is alone in its buffer
    std::vector<Block> blocks;
    std::vector<size_t> in_order(temporary.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    std::stable_sort(in_order.begin(), in_order.end(),
                     [&](size_t a, size_t b) { return temporary[a].start < temporary[b].start; });
    std::set<int> passed_on;
    for (size_t i : in_order) {
      const Buffer& buffer = temporary[i];
      const int shared =
          buffer.values.size() == 1 ? operand_ending(buffer.values[0], block_of, passed_on) : -1;
      if (shared >= 0) {
        passed_on.insert(shared);
        Block& block = blocks[block_of[shared]];
        const Held& held = at(buffer.values[0]);
        block.times.push_back({held.start + 1, held.end});
        block_of[buffer.values[0]] = block_of[shared];
        continue;
      }
      Block block{.bytes = buffer.bytes};
      for (int value : buffer.values) block.times.push_back({at(value).start, at(value).end});
      if (buffer.values.size() == 1) block_of[buffer.values[0]] = blocks.size();
      blocks.push_back(std::move(block));
    }
    return packed_bytes(blocks);
  }

  int operand_ending(int value, const std::map<int, size_t>& block_of,
                     const std::set<int>& passed_on) {
    const Held& held = at(value);
    const Inst& now = inst(held.computation, held.inst);
    for (int operand : now.operands) {
      if (values(held.computation, operand).size() != 1) continue;
      const int source = values(held.computation, operand)[0];
      if (at(source).inst != operand || at(source).end != held.start) continue;
      if (!block_of.contains(source) || passed_on.contains(source)) continue;
      if (shares(value, source)) return source;
    }
    return -1;
  }

  const Module& module_;
  const std::vector<std::vector<int>>& order_;
  std::vector<std::vector<int>> times_;                // by computation and instruction
  std::vector<std::vector<std::vector<int>>> values_;  // the same: of each result
  std::vector<std::pair<int, int>> spans_;             // by computation
  std::vector<Held> held_;
  std::vector<int> join_;
  int clock_ = 0, last_ = 0;
  int64_t tables_ = 0;
};

}  // namespace

Memory assign_buffers(const Module& module, const std::vector<std::vector<int>>& order) {
  return BufferAssigner(module, order).run();
}

}  // namespace cleave::analyze::hlo
