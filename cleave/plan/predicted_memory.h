#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// What a device holds if XLA compiles the plan for a platform ("cpu", "cuda", "gpu", "rocm",
// "tpu"), whichever machine it was planned for: of the same program, what that platform's executor
// makes. Nothing for other platforms. `has_library` is said of XLA for CPUs (xla_cpu_memory.h).
std::optional<int64_t> predicted_memory(const Plan& plan, const Graph& graph,
                                        const MachineProfile& profile, std::string_view platform,
                                        bool has_library = true);
// Says so if the program of a plan holds more than the plan's limit. The planner counts memory by
// the rows of its tables, and the two counts can differ:
//   "by its schedule the program holds 9.7 MiB, and may hold 8.0 MiB; plan within 6.5 MiB"
std::optional<std::string> note_of_memory(const Plan& plan, const Graph& graph,
                                          const MachineProfile& profile);

// Whether an executor is what XLA compiles by for a platform: `xla-gpu` for "cuda".
bool is_executor_of(const ExecutorProfile& executor, std::string_view platform);

// How far the compiled memory may be from the predicted one, as a share of it.
inline constexpr double kMemoryWithin = 0.15;

}  // namespace cleave::plan
