#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/compile/team.h"
#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"
#include "cleave/kernels/loop.h"
#include "cleave/kernels/reduce.h"
#include "cleave/kernels/running_fold.h"

namespace cleave {

// A view of memory that is known before it exists: where the elements of a tensor will lie.
struct StridedType {
  DType dtype = DType::F32;
  Shape shape;
  Shape strides;  // in elements
};

// A fusion (cleave/compile/fuse.h) as a list of loops over blocks that stay in the cache. Operands
// are strided views; results are contiguous.
//
//   FusedLoop loop(graph, node, operand_types);
//   loop.run(operands, results, scratch, &team);
//
// If the fusion has a matrix product, the product is computed before, and is the last operand.
//
// A block is some whole rows if the fusion has rows, and a part of the elements otherwise. For each
// block, operands that do not lie in order are packed, then every op runs over the block, with its
// result in scratch memory or, if it leaves the fusion, in place. Sums along the rows and of
// everything are added block by block, in up to four parts if they are long, whatever the number of
// threads.
class FusedLoop {
 public:
  FusedLoop(const Graph& graph, const Node& fusion, std::span<const StridedType> operands);

  struct Pair {
    size_t operand, result;
  };
  // Results that may take the memory of an operand, if nothing reads the operand afterwards.
  const std::vector<Pair>& in_place() const { return in_place_; }
  size_t scratch_bytes(int threads) const;
  size_t num_loops() const { return instructions_.size(); }

  void run(std::span<std::byte* const> operands, std::span<std::byte* const> results,
           std::byte* scratch, Team* team = nullptr) const;

 private:
  friend class FusedLoopBuilder;

  struct Dim {
    int64_t size, stride;
  };
  // Something that is read: an operand, or an array of its own.
  struct Leaf {
    int operand = -1;
    Array array;  // if there is no operand
    std::vector<Dim> dims;
    int64_t size = 0;  // bytes of an element
    bool rows = false;
    enum class Kind : uint8_t { Direct, Splat, Packed } kind = Kind::Direct;
  };
  // Where the values of a block are while it is computed.
  struct Slot {
    enum class Kind : uint8_t { Leaf, Scratch, Result } kind = Kind::Scratch;
    size_t index = 0;   // of the leaf or result
    size_t offset = 0;  // in scratch
    int64_t size = 0;   // bytes of an element
    bool rows = false;
  };
  struct Instruction {
    enum class Kind : uint8_t { Loop, FoldRows, SpreadRows, Copy, FoldColumns, FoldTotal };
    Kind kind = Kind::Loop;
    Loop loop = nullptr;
    std::array<uint32_t, kMaxLoopOperands> in{};
    uint8_t num_in = 0;
    uint32_t out = 0;
    bool rows = false;  // runs over the rows of the block
    DType dtype = DType::F32;
    Reducer reducer = Reducer::Sum;
    uint32_t init = 0;       // slot of the first value
    size_t accumulator = 0;  // of FoldColumns, FoldTotal
  };
  struct Accumulator {
    size_t result = 0;
    size_t offset = 0;  // in the part's memory
    int64_t count = 0;
    DType dtype = DType::F32, stored = DType::F32;
    RunningFold fold;
    uint32_t init = 0;  // slot
    std::vector<std::byte> identity;
  };
  struct State;

  void run_part(std::span<std::byte* const> operands, std::span<std::byte* const> results,
                std::byte* scratch, std::byte* accumulators, int64_t part, int64_t parts) const;
  void run_block(State& state, int64_t row, int64_t rows) const;
  void start_accumulators(State& state, std::byte* memory, bool first) const;
  void finish_accumulators(std::span<std::byte* const> results, std::byte* memory,
                           int64_t parts) const;
  const std::byte* source(const Leaf& leaf, std::span<std::byte* const> operands) const;

  int64_t rows_ = 1, columns_ = 1;  // in linear mode: rows of one element
  bool linear_ = false;
  int64_t block_ = 1;  // rows of a block
  std::vector<Leaf> leaves_;
  std::vector<Slot> slots_;
  std::vector<Instruction> instructions_;
  std::vector<Accumulator> accumulators_;
  size_t scratch_ = 0, accumulator_bytes_ = 0;
  std::vector<Pair> in_place_;
};

}  // namespace cleave
