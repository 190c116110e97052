#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// A family of ops: a folder of cleave/ops, or a file of it if the family is small. All families
// define their ops before any of them extends an op, so that one may add to ops of another.
struct OpFamily {
  void (*define)(OpRegistry& registry);
  void (*extend)(OpRegistry& registry) = nullptr;  // batching, derivatives, local forms, samples
};

extern const OpFamily kElementwiseFamily, kChloFamily, kShapeFamily, kIndexingFamily, kReduceFamily,
    kSortFamily, kDotFamily, kConvolutionFamily, kLinalgFamily, kRandomFamily, kCustomCallFamily,
    kControlFamily, kCollectiveFamily, kSdyFamily, kCheckFamily;

}  // namespace cleave
