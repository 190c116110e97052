#pragma once

#include <cstdint>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

struct FuseOptions {
  // Rows up to this many elements are held whole in the cache, so that what is reduced along them
  // can be spread over them again in the same pass (softmax, norms).
  int64_t longest_row = 8192;
  size_t most_nodes = 96;  // of one fusion
};

// Groups elementwise ops, with the reductions and the broadcasts between them, into nodes
// `cleave.fusion` whose results are computed in one pass:
//
//   %m = reduce max %x over the last dimension       one fusion: %x is read once from memory,
//   %e = exponential (%x - broadcast %m)             %m and %s live in the cache,
//   %s = reduce add %e over the last dimension       %y is written once
//   %y = %e / broadcast %s
//
// The members of a fusion iterate over one space of R rows and C columns. A member is made of
// elements (R x C), of rows (R: what is reduced along the columns, and ops on such), or is a
// reduction along the rows or of everything, which leaves the fusion. Constants, iotas and
// broadcasts are copied into every fusion that reads them. Nodes with effects and those that talk
// to other devices keep their order.
bool fuse(Graph& graph, const FuseOptions& options = {});

// What a value is in the space of a fusion, and how a reduction folds it.
enum class FusionLevel : uint8_t { Elements, Rows, Columns, Total };

// A reduction of `shape` over `dims` by what it leaves: Rows if the last dimensions go, Columns if
// the first ones go, Total if all go; `columns` is then the C of its space (of Total: 0, any).
// Dimensions of size 1 do not count. False if it is none of these.
bool reduction_level(const Shape& shape, const std::vector<int64_t>& dims, FusionLevel& level,
                     int64_t& columns);

// Whether a broadcast_in_dim repeats every element of its operand, in order, along the last
// dimensions of its result: `times` times.
//   [4, 8] -> [4, 8, 3], dims [0, 1]: 3 times
bool spreads_rows(const Shape& operand, const Shape& result, const std::vector<int64_t>& dims,
                  int64_t& times);

}  // namespace cleave
