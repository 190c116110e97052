#pragma once

#include <string_view>
#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/flow.h"
#include "cleave/runtime/stopped.h"
#include "cleave/transforms/region_copy.h"

namespace cleave {

// Marks that have a meaning for transforms; all other code runs the op as it stands.
//   stablehlo.optimization_barrier {cleave.stop_gradient}: nothing flows back (runtime/stopped.h)
//   sdy.named_computation<"cleave.checkpoint">: values inside are computed again for the derivative
//   sdy.named_computation<"cleave.keep">: inside a checkpoint, a value that is kept all the same
//   sdy.named_computation<"cleave.custom_vjp"> {cleave.vjp = "module text"}: the functions @fwd and
//     @bwd of that module are its derivative
inline constexpr std::string_view kCheckpoint = "cleave.checkpoint";
inline constexpr std::string_view kKeep = "cleave.keep";
inline constexpr std::string_view kCustomVjp = "cleave.custom_vjp";
inline constexpr std::string_view kCustomVjpRules = "cleave.vjp";

// What a scan along dimension 0 is made of. The body lies in a region of its own, without an end;
// its arguments are in order of `inputs` and `carries`.
struct ScanBody {
  std::vector<ValueId> args;
  std::vector<NodeId> nodes;
  std::vector<ValueId> outputs, carries;  // what it returns
};
// Writes the scan. Values that the body takes from outside become constants inside it or carries
// that never change, since the op is closed; results are the outputs and the carries.
// A copy of a node as copy_within makes it, but for scans, here or inside, whose body takes values
// from outside: those are closed.
void copy_closed(Graph& graph, NodeId source, RegionId target, ValueTable& table);
std::vector<ValueId> write_scan(GraphBuilder& b, std::vector<ValueId> inputs,
                                std::vector<ValueId> carries, ScanBody body, bool is_reverse);

}  // namespace cleave
