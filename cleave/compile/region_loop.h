#pragma once

#include <array>
#include <optional>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/loop.h"

namespace cleave {

// The body of a reduction, a scatter or a select, made of elementwise ops on scalars, over many
// elements at a time and without an allocation:
//
//   { ^bb0(%a: tensor<f32>, %b: tensor<f32>):
//       %c = stablehlo.compare GE, %a, %b; stablehlo.return %c }     out[i] = a[i] >= b[i]
class RegionLoop {
 public:
  // Nothing if the region has ops of another kind.
  static std::optional<RegionLoop> make(const Graph& graph, RegionId region);

  size_t scratch_bytes() const { return scratch_; }
  // Whether result i may lie where argument i does, of n accumulated values and n new ones: no
  // result merely passes on an argument of another one.
  bool folds_in_place(size_t n) const;
  // Arguments and results are packed, in the region's dtypes; a result may lie where an argument
  // does that has its element size.
  void run(const std::byte* const* args, std::byte* const* results, int64_t n,
           std::byte* scratch) const;

 private:
  static constexpr int64_t kChunk = 256;
  struct Slot {
    int argument = -1;
    std::vector<std::byte> constant;  // a chunk of it
    size_t offset = 0;                // in scratch, otherwise
    int64_t size = 0;                 // bytes of an element
  };
  struct Instruction {
    Loop loop = nullptr;
    std::array<size_t, kMaxLoopOperands> in{};
    size_t num_in = 0, out = 0;
  };
  size_t add_slot(DType dtype);
  void convert(size_t& slot, DType from, DType to);

  std::vector<Slot> slots_;
  std::vector<Instruction> instructions_;
  std::vector<size_t> results_;  // slots
  size_t scratch_ = 0;
};

}  // namespace cleave
