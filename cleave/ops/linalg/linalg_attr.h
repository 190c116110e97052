#pragma once

#include "cleave/graph/graph.h"
#include "cleave/kernels/fft.h"
#include "cleave/kernels/linalg.h"

namespace cleave {

// What the attributes of stablehlo.triangular_solve and stablehlo.fft say. Both functions throw
// UserError if they are malformed.
TriangularSolve triangular_solve_of(const Node& node);
FftKind fft_kind(const Node& node);

}  // namespace cleave
