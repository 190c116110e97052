#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/sharding.h"

namespace cleave {

// What may happen along a factor when it is sharded.
enum class FactorKind : uint8_t {
  PassThrough,      // in operands and results; shards compute on their own
  Reduction,        // in operands only: a sharded one leaves results partial
  NeedReplication,  // must not be sharded when the op runs
  Permutation,      // sharded only with communication between neighbours (slice, pad, windows)
};

// A named index that an op iterates over.
struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::PassThrough;
  bool blocked = false;             // propagation does not go along it
  ReduceOp reduce = ReduceOp::Sum;  // of a Reduction factor: how the parts are completed
  // Of a Reduction factor: it is not known how parts are completed (argmax, any reducer that is not
  // one operator). Shardings propagate along it, but it is replicated when the op runs.
  bool unknown_reduce = false;
  bool operator==(const Factor&) const = default;
};

using FactorIndex = int32_t;
using DimFactors = std::vector<FactorIndex>;    // the factors of one dimension, major to minor
using TensorFactors = std::vector<DimFactors>;  // of one operand or result, by dimension

// How the dimensions of an op's operands and results correspond: every dimension is a product of
// factors.
//
//   matmul    "m k, k n -> m n"   Shardy: ([i, k],[k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}
//   reshape   "(h d) -> h d"      Shardy: ([ij])->([i, j]) {i=4, j=2}
struct OpShardingRule {
  std::vector<Factor> factors;
  std::vector<TensorFactors> operands;
  std::vector<TensorFactors> results;
  bool is_custom = false;

  bool empty() const { return factors.empty() && operands.empty() && results.empty(); }
  size_t num_tensors() const { return operands.size() + results.size(); }
  // Operands first, then results.
  const TensorFactors& tensor(size_t i) const {
    return i < operands.size() ? operands[i] : results[i - operands.size()];
  }
  bool operator==(const OpShardingRule&) const = default;
};

// One way in which pending reductions pass through an op: if exactly the operands marked in
// `partial` are partial under `in` (and the others are not partial), the results marked are partial
// under `out`.
//   add       {Sum, {1,1}, Sum}      mul  {Sum, {1,0}, Sum}, {Sum, {0,1}, Sum}
//   negate    {Sum, {1}, Sum}, {Max, {1}, Min}, {Min, {1}, Max}
//   maximum   {Max, {1,1}, Max}, {Max, {1,0}, Max}, {Max, {0,1}, Max}
struct PartialRow {
  ReduceOp in;
  std::vector<bool> operands;
  ReduceOp out;
  bool operator==(const PartialRow&) const = default;
};
using PartialTransfer = std::vector<PartialRow>;

}  // namespace cleave
