#pragma once

#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/fit.h"

namespace cleave {

// What a convolution takes on a core, as loops of MachineProfile::loops. A core multiplies vectors
// of features (4, 8 or 16 of them, or several such; what it has, the measurements say) for every
// pixel and every number of a window, zeros between the elements of a dilated input included. The
// sums of the pixels of a row are kept in registers while a number of the window is multiplied with
// all of them: how often that begins anew counts too, and short rows have few sums under way.
//
//   3 x 3 x 32 x 8 on 8 x 32 x 32 pixels: 288 numbers for each of 8192 pixels are 2.4M vectors of
//     8 or of 16, and begun 118k times, on rows of 20;
//   the gradient of that kernel, of 32 x 9 "pixels" by 8192 numbers: as many, begun 786k times
inline constexpr std::string_view kConvolutionCall = "convolution.call";
std::vector<FusionTiming::Loop> convolution_loops(const Graph& graph, const Node& node);

}  // namespace cleave
