#pragma once

#include "cleave/kernels/loop.h"
#include "cleave/kernels/reduce.h"

namespace cleave {

// A fold of rows that come a few at a time, into memory of the caller. Sums are blocked
// (cleave/kernels/blocked_sum.h): their error does not grow with the number of rows. F16 and BF16
// must be widened first.
//
//   RunningFold fold(DType::F32, Reducer::Sum, 3, add);
//   fold.start(memory, zero);
//   fold.add_rows(memory, rows, 2);  // 2 rows of 3 elements
//   fold.finish(memory, out);        // 3 elements
class RunningFold {
 public:
  RunningFold() = default;
  // `combine`: the reducer as an elementwise op.
  RunningFold(DType dtype, Reducer reducer, int64_t columns, Loop combine);

  size_t bytes() const { return bytes_; }  // the size of `memory`, which is aligned as for doubles
  // Begins with *first in every column.
  void start(std::byte* memory, const std::byte* first) const;
  // The bits do not depend on how many rows come at a time.
  void add_rows(std::byte* memory, const std::byte* rows, int64_t n) const;
  // For a fold of one column: adds n elements to it.
  void add_elements(std::byte* memory, const std::byte* elements, int64_t n) const;
  // Adds what another fold of the same kind has in its memory.
  void merge(std::byte* memory, std::byte* other) const;
  void finish(std::byte* memory, std::byte* out) const;

 private:
  bool is_blocked() const;

  DType dtype_ = DType::F32;
  Reducer reducer_ = Reducer::Sum;
  int64_t columns_ = 0;
  size_t bytes_ = 0;
  Loop combine_ = nullptr;
};

}  // namespace cleave
