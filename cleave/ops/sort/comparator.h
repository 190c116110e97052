#pragma once

#include <optional>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/sort.h"

namespace cleave {

// One step of an order of tuples: compare this part of this operand; if both are equal, the next
// step decides.
struct ComparatorKey {
  enum class Part : uint8_t { Whole, Real, Imag };
  size_t operand = 0;
  Part part = Part::Whole;
  bool total_order = false;  // floats: NaNs have a place; otherwise they compare as IEEE says
  KeyOrder order;
  bool operator==(const ComparatorKey& other) const {
    return operand == other.operand && part == other.part;
  }
};

// The order that the comparator of a sort (arguments a0, b0, a1, b1, ...) stands for, if it is
// written in one of the usual ways; nothing otherwise.
//   compare LT, a0, b0                                              -> {0}
//   or(compare LT, a0, b0; and(compare EQ, a0, b0; compare LT, a1, b1))  -> {0}, {1}
// Operands may pass through real, imag, and the selects by which JAX takes zeros and NaNs as one.
std::optional<std::vector<ComparatorKey>> recognise_comparator(const Graph& graph, RegionId region);

}  // namespace cleave
