#include "cleave/compile/fused_loop.h"

#include <algorithm>
#include <cstring>

#include "cleave/core/aligned.h"
#include "cleave/core/error.h"
#include "cleave/kernels/dispatch.h"

namespace cleave {
namespace {

constexpr int64_t kParallelWork = 1 << 17;  // elements times loops, below which one thread does all
constexpr int64_t kPartedElements = 1 << 16;
constexpr int64_t kParts = 4;
constexpr int64_t kTasksPerThread = 4;

struct Bytes16Block {
  std::byte bytes[16];
};

// Elements [begin, begin + n) of a strided view in row-major order.
template <typename T, typename Dims>
void pack_as(const std::byte* base, const Dims& dims, int64_t begin, int64_t n, std::byte* to) {
  constexpr size_t kMostDims = 12;
  int64_t index[kMostDims];
  const size_t rank = dims.size();
  const T* source = reinterpret_cast<const T*>(base);
  int64_t rest = begin;
  for (size_t d = rank; d-- > 0;) {
    index[d] = rest % dims[d].size;
    rest /= dims[d].size;
    source += index[d] * dims[d].stride;
  }
  T* out = reinterpret_cast<T*>(to);
  const size_t inner = rank - 1;
  const int64_t step = dims[inner].stride;
  while (n > 0) {
    const int64_t run = std::min(n, dims[inner].size - index[inner]);
    if (step == 1)
      std::memcpy(out, source, static_cast<size_t>(run) * sizeof(T));
    else if (step == 0)
      std::fill_n(out, run, *source);
    else
      for (int64_t i = 0; i < run; ++i) out[i] = source[i * step];
    out += run;
    n -= run;
    source += run * step;
    index[inner] += run;
    for (size_t d = inner; index[d] == dims[d].size && d > 0; --d) {
      source += dims[d - 1].stride - dims[d].stride * dims[d].size;
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

template <typename Dims>
void pack(int64_t size, const std::byte* base, const Dims& dims, int64_t begin, int64_t n,
          std::byte* to) {
  switch (size) {
    case 1:
      return pack_as<uint8_t>(base, dims, begin, n, to);
    case 2:
      return pack_as<uint16_t>(base, dims, begin, n, to);
    case 4:
      return pack_as<uint32_t>(base, dims, begin, n, to);
    case 8:
      return pack_as<uint64_t>(base, dims, begin, n, to);
    default:
      return pack_as<Bytes16Block>(base, dims, begin, n, to);
  }
}

template <typename T>
void fill_as(const std::byte* value, int64_t n, std::byte* to) {
  std::fill_n(reinterpret_cast<T*>(to), n, *reinterpret_cast<const T*>(value));
}

void fill_elements(int64_t size, const std::byte* value, int64_t n, std::byte* to) {
  switch (size) {
    case 1:
      return fill_as<uint8_t>(value, n, to);
    case 2:
      return fill_as<uint16_t>(value, n, to);
    case 4:
      return fill_as<uint32_t>(value, n, to);
    case 8:
      return fill_as<uint64_t>(value, n, to);
    default:
      return fill_as<Bytes16Block>(value, n, to);
  }
}

template <typename T>
void spread_as(const std::byte* in, int64_t rows, int64_t columns, std::byte* out) {
  const T* values = reinterpret_cast<const T*>(in);
  T* to = reinterpret_cast<T*>(out);
  for (int64_t r = 0; r < rows; ++r) std::fill_n(to + r * columns, columns, values[r]);
}

void spread(int64_t size, const std::byte* in, int64_t rows, int64_t columns, std::byte* out) {
  switch (size) {
    case 1:
      return spread_as<uint8_t>(in, rows, columns, out);
    case 2:
      return spread_as<uint16_t>(in, rows, columns, out);
    case 4:
      return spread_as<uint32_t>(in, rows, columns, out);
    case 8:
      return spread_as<uint64_t>(in, rows, columns, out);
    default:
      return spread_as<Bytes16Block>(in, rows, columns, out);
  }
}

constexpr size_t kMostSlots = 512;

}  // namespace

struct FusedLoop::State {
  std::span<std::byte*const> operands, results;
  std::byte* scratch = nullptr;
  std::byte* accumulators = nullptr;
  std::array<std::byte*, kMostSlots> pointers;
};

size_t FusedLoop::scratch_bytes(int threads) const {
  return scratch_ * static_cast<size_t>(threads) + accumulator_bytes_ * kParts;
}

const std::byte* FusedLoop::source(const Leaf& leaf, std::span<std::byte* const> operands) const {
  return leaf.operand >= 0 ? operands[static_cast<size_t>(leaf.operand)] : leaf.array.raw();
}

void FusedLoop::run(std::span<std::byte* const> operands, std::span<std::byte* const> results,
                    std::byte* scratch, Team* team) const {
  const int threads = team ? team->size() : 1;
  std::byte* accumulators = scratch + scratch_ * static_cast<size_t>(threads);
  const int64_t elements = rows_ * columns_;
  int64_t parts = 1;
  if (!accumulators_.empty())
    parts = elements >= kPartedElements ? kParts : 1;
  else if (threads > 1 && elements * static_cast<int64_t>(instructions_.size()) >= kParallelWork)
    parts = std::min<int64_t>(kTasksPerThread * threads, ceil_div(rows_, block_));
  const auto run_one = [&](int64_t part, int worker) {
    run_part(operands, results, scratch + scratch_ * static_cast<size_t>(worker),
             accumulators + accumulator_bytes_ * static_cast<size_t>(part), part, parts);
  };
  if (team)
    team->run(parts, run_one);
  else
    for (int64_t part = 0; part < parts; ++part) run_one(part, 0);
  finish_accumulators(results, accumulators, parts);
}

void FusedLoop::run_part(std::span<std::byte* const> operands, std::span<std::byte* const> results,
                         std::byte* scratch, std::byte* accumulators, int64_t part,
                         int64_t parts) const {
  State state{operands, results, scratch, accumulators, {}};
  const int64_t blocks = ceil_div(rows_, block_);
  const int64_t begin = blocks * part / parts * block_;
  const int64_t end = std::min(rows_, blocks * (part + 1) / parts * block_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.kind != Slot::Kind::Result) state.pointers[i] = scratch + slot.offset;
    if (slot.kind != Slot::Kind::Leaf || leaves_[slot.index].kind != Leaf::Kind::Splat) continue;
    const int64_t rows = std::max<int64_t>(std::min(block_, end - begin), 1);
    fill_elements(slot.size, source(leaves_[slot.index], operands),
                  slot.rows ? rows : rows * columns_, state.pointers[i]);
  }
  start_accumulators(state, accumulators, part == 0);
  for (int64_t row = begin; row < end; row += block_)
    run_block(state, row, std::min(block_, end - row));
}

void FusedLoop::run_block(State& state, int64_t row, int64_t rows) const {
  const int64_t n = rows * columns_;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const int64_t at = slot.rows ? row : row * columns_;
    if (slot.kind == Slot::Kind::Result) {
      state.pointers[i] = state.results[slot.index] + at * slot.size;
    } else if (slot.kind == Slot::Kind::Leaf) {
      const Leaf& leaf = leaves_[slot.index];
      if (leaf.kind == Leaf::Kind::Direct)
        state.pointers[i] = const_cast<std::byte*>(source(leaf, state.operands)) + at * slot.size;
      else if (leaf.kind == Leaf::Kind::Packed)
        pack(slot.size, source(leaf, state.operands), leaf.dims, at, slot.rows ? rows : n,
             state.pointers[i]);
    }
  }
  const std::byte* in[kMaxLoopOperands] = {};
  for (const Instruction& op : instructions_) {
    for (size_t k = 0; k < op.num_in; ++k) in[k] = state.pointers[op.in[k]];
    switch (op.kind) {
      case Instruction::Kind::Loop:
        op.loop(in, state.pointers[op.out], op.rows ? rows : n);
        break;
      case Instruction::Kind::FoldRows:
        fold_rows(op.dtype, op.reducer, in[0], rows, columns_, state.pointers[op.init],
                  state.pointers[op.out]);
        break;
      case Instruction::Kind::SpreadRows:
        spread(slots_[op.out].size, in[0], rows, columns_, state.pointers[op.out]);
        break;
      case Instruction::Kind::Copy:
        std::memcpy(state.pointers[op.out], in[0],
                    static_cast<size_t>((op.rows ? rows : n) * slots_[op.out].size));
        break;
      case Instruction::Kind::FoldColumns: {
        const Accumulator& accumulator = accumulators_[op.accumulator];
        accumulator.fold.add_rows(state.accumulators + accumulator.offset, in[0], rows);
        break;
      }
      case Instruction::Kind::FoldTotal: {
        const Accumulator& accumulator = accumulators_[op.accumulator];
        accumulator.fold.add_elements(state.accumulators + accumulator.offset, in[0], n);
        break;
      }
    }
  }
}

void FusedLoop::start_accumulators(State& state, std::byte* memory, bool first) const {
  for (const Accumulator& accumulator : accumulators_) {
    const std::byte* value = accumulator.identity.data();
    std::array<std::byte, 16> wide{};
    if (first) {
      const Slot& slot = slots_[accumulator.init];
      value = source(leaves_[slot.index], state.operands);
      if (accumulator.stored != accumulator.dtype) {
        convert_loop(accumulator.stored, accumulator.dtype)(&value, wide.data(), 1);
        value = wide.data();
      }
    }
    accumulator.fold.start(memory + accumulator.offset, value);
  }
}

void FusedLoop::finish_accumulators(std::span<std::byte* const> results, std::byte* memory,
                                    int64_t parts) const {
  for (const Accumulator& accumulator : accumulators_) {
    const RunningFold& fold = accumulator.fold;
    std::byte* sums = memory + accumulator.offset;
    for (int64_t part = 1; part < parts; ++part)
      fold.merge(sums, sums + accumulator_bytes_ * static_cast<size_t>(part));
    if (accumulator.stored == accumulator.dtype) {
      fold.finish(sums, results[accumulator.result]);
      continue;
    }
    std::byte* const wide = sums + aligned(fold.bytes());
    fold.finish(sums, wide);
    const std::byte* in[1] = {wide};
    convert_loop(accumulator.dtype, accumulator.stored)(in, results[accumulator.result],
                                                        accumulator.count);
  }
}

}  // namespace cleave
