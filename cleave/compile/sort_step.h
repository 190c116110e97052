#pragma once

#include <memory>
#include <vector>

#include "cleave/compile/device_code.h"
#include "cleave/kernels/sort.h"

namespace cleave {

// One key of a row: elements of an operand, or a part of each.
struct RowKey {
  size_t operand = 0;
  DType dtype = DType::F32;        // of the part
  int64_t offset = 0, stride = 1;  // in elements of that
  KeyOrder order;
  bool places_nan = true;  // false: if there is a NaN, the op's kernel has to find the order
};

// Rows that lie one after the other, sorted by their keys; the first `count` elements are kept.
struct RowSort {
  int64_t rows = 0, length = 0, count = 0;
  std::vector<CodeView> operands, results;  // {rows, length}, {rows, count}, packed
  std::vector<RowKey> keys;
  CodeView indices;  // I32: where the elements were; only if `has_indices`
  bool has_indices = false;
  // The same tensors as the op's node sees them.
  std::vector<CodeView> node_operands, node_results;
};

class SortStep : public CodeStep {
 public:
  SortStep(RowSort sort, int threads);
  size_t scratch_bytes() const;  // of all threads
  Next run(Frame& frame) const override;

 private:
  bool run_row(const Frame& frame, int64_t row, std::byte* scratch) const;

  RowSort sort_;
  int threads_;
  size_t keys_at_ = 0, order_at_ = 0, each_ = 0;  // bytes in a thread's scratch memory
};

}  // namespace cleave
