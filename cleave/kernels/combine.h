#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cleave/core/dtype.h"
#include "cleave/core/sharding.h"

namespace cleave {

// out[i] = parts[0][i] op parts[1][i] op ..., for i in [begin, end) of contiguous buffers. 16-bit
// floats are accumulated in float32. Complex numbers know Sum, Prod and Avg; Bool treats Sum and
// Max as Or, Prod and Min as And. Throws UserError for an operator that the dtype does not know.
void combine_parts(ReduceOp op, DType dtype, std::span<const std::byte* const> parts,
                   std::byte* out, int64_t begin, int64_t end);

}  // namespace cleave
