#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/runtime/record.h"

namespace cleave {

// What recording a function on arguments of some types and layouts came to: the signature of each
// op, and which values it reads. Recording it again on arguments like these looks nothing up.
class ReplayPlan {
 public:
  struct Step {
    SignaturePtr signature;
    std::vector<uint32_t> operands, results;  // values
  };

  bool fits(std::span<const Tensor> args) const;
  std::vector<Tensor> run(std::span<const Tensor> args) const;

  // Filled in by `replay`. Functions that call others have no plan.
  bool valid = false;
  size_t num_values = 0;
  std::vector<AvalPtr> avals;  // of the arguments
  std::vector<uint32_t> args, results;
  std::vector<Step> steps;
};

// The same as `replay` of cleave/runtime/trace_scope.h, and notes in `plan` what it did.
std::vector<Tensor> replay(const Graph& graph, const Function& function,
                           std::span<const Tensor> args, ReplayPlan& plan);

}  // namespace cleave
