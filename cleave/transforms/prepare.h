#pragma once

#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/transforms/region_copy.h"

namespace cleave {

enum class DiffMode : uint8_t { Forward, Reverse };

// A copy of a function that is easy to differentiate, in a region without an owner: calls are
// inlined if something flows through them, and ops without a rule become those that they consist of
// (OpDef::expand): implicit broadcasts, maps, reductions with any body, batch norms. Tuples become
// their elements. In reverse mode, loops that count become scans.
RegionId prepare(Graph& graph, std::string_view function, const std::vector<size_t>& args,
                 DiffMode mode);

}  // namespace cleave
