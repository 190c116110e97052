#pragma once

#include <cstdint>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/executor_profile.h"

namespace cleave::analyze {

// The order in which a compiler that chooses layouts keeps the dimensions of every value, major to
// minor. Products, arguments and results are row-major; a transpose changes no memory, so what
// follows it is kept in the order of its operand, and elementwise ops keep the order of the first
// operand that has one.
//
//   %1 = dot_general ... : tensor<8x512x128xf32>            0, 1, 2
//   %2 = transpose %1, dims = [0, 2, 1]                     0, 2, 1
//   %3 = exponential %2                                     0, 2, 1: a sum over its dimension 1 is
//                                                           a sum over rows
struct StorageOrders {
  struct Moved {
    NodeId node;
    size_t operand;
  };
  std::vector<std::vector<int>> of;  // by value; empty: any order will do, as of a constant
  std::vector<bool> mixed;           // by node: it reads an operand in another order than its own
  std::vector<Moved> strided;        // operands that are copied first, because rows are short
};
StorageOrders storage_orders(const Graph& graph, RegionId region, const ExecutorProfile& executor);

// The dimensions of more than one element, major to minor; those of `order`, or all if it is empty.
std::vector<int> real_dims(const Type& type, const std::vector<int>& order);

}  // namespace cleave::analyze
