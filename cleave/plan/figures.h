#pragma once

#include <optional>
#include <string>

#include "cleave/core/dtype.h"
#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

struct BoundPlan;  // bound_plan.h

// Figures that people compare steps by. None of them changes a plan.

// Products and convolutions of one step on whole tensors, loops included: what the model asks for,
// however it is split.
struct ModelFlops {
  double flops = 0;
  // Those of products that were computed before from the same values, as checkpointing does; not
  // part of `flops`.
  double recomputed = 0;
  // Loops compute values again that other loops made, and how much of `flops` that is cannot be
  // told: it is then that of the program.
  bool is_of_program = false;
  DType dtype = DType::F32;  // of the operands of most of it
  bool is_exact = false;     // they are not to be rounded to tf32
};
ModelFlops model_flops(const BoundPlan& bound);

// What a step works on, if that is certain: the token arrays [batch, length] that an embedding is
// looked up by, or the images that the first convolution takes.
struct StepItems {
  std::string what;  // "tokens" or "samples"
  double count = 0;
};
std::optional<StepItems> step_items(const Graph& flat, const std::string& entry);

// Seconds of a step by what limits them; they sum to those of the step. A kernel counts as a whole,
// but for its launch, to arithmetic or to memory, whichever would take longer without the other.
struct StepLimits {
  double products = 0;       // arithmetic of products and convolutions
  double arithmetic = 0;     // of other kernels
  double memory = 0;         // kernels that wait for memory
  double launches = 0;       // and what else is there before a kernel runs
  double host = 0;           // what is done there for the arguments
  double communication = 0;  // that nothing hides
  double manual = 0;         // manual computations, which are not looked into
};
StepLimits step_limits(const BoundPlan& bound, const MachineProfile& profile);

// Of a plan and its module.
PlanFigures plan_figures(const Plan& plan, const Graph& graph, const MachineProfile& profile);
//   MFU 41.2%: 5.31e+15 FLOP of the model a step, 6.33e+04 TFLOP/s of bf16 at most
//   1.556e+05 tokens/s
//   limited by products 45.0%, memory 31.0%, launches 2.0%, communication 22.0%
std::string to_string(const PlanFigures& figures);

}  // namespace cleave::plan
