#pragma once

#include <cstdint>

#include "cleave/core/dtype.h"
#include "cleave/core/shape.h"
#include "cleave/core/sharding.h"

namespace cleave {

// What a change of layout holds on one device beside its operand and its result.
//
// NCCL sends and receives one stretch of memory for each device, so that a collective along a
// dimension works on buffers in which this dimension is the outermost; XLA gives it such buffers.
// If the dimension is the first or the last one, that order is one that the kernels before or
// after it can write or read as it is. If it lies between others, the larger side exists twice:
// what is gathered is put in order afterwards, what is scattered is put in order before. An
// all_to_all always cuts one dimension and joins another.
//
//   [{"x"}, {}, {}] -> [{}, {}, {}]   gathers the first dimension: nothing
//   [{}, {"x"}, {}] -> [{}, {}, {}]   gathers one in the middle: a second copy of the result
//   [{}, {}, {}], unreduced={"x"} -> [{}, {"x"}, {}]   of the operand
//   [{"x"}, {}] -> [{}, {"x"}]        an all_to_all: of the operand
int64_t reordered_bytes(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                        DType dtype);

}  // namespace cleave
