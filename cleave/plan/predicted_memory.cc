#include "cleave/plan/predicted_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cleave/analyze/program_memory.h"
#include "cleave/analyze/xla_cpu_memory.h"
#include "cleave/core/units.h"
#include "cleave/plan/apply.h"
#include "cleave/spmd/single_program.h"

namespace cleave::plan {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kExecutors = {
    {{"cpu", "xla-cpu"},
     {"cuda", "xla-gpu"},
     {"gpu", "xla-gpu"},
     {"rocm", "xla-gpu"},
     {"tpu", "xla-tpu"}}};

}  // namespace

bool is_executor_of(const ExecutorProfile& executor, std::string_view platform) {
  return std::find(kExecutors.begin(), kExecutors.end(),
                   std::pair<std::string_view, std::string_view>(platform, executor.name)) !=
         kExecutors.end();
}

std::optional<int64_t> predicted_memory(const Plan& plan, const Graph& graph,
                                        const MachineProfile& profile, std::string_view platform,
                                        bool has_library) {
  for (const auto& [name, executor] : kExecutors) {
    if (name != platform) continue;
    MachineProfile other = profile;
    if (other.executor.name != executor) other.executor = builtin_executor(executor);
    if (is_xla_cpu(other.executor))
      return analyze::xla_cpu_memory(single_program(partition_planned(plan, graph, profile)),
                                     has_library)
          .total();
    return analyze::program_memory(partition_planned(plan, graph, other)).peak;
  }
  return std::nullopt;
}

std::optional<std::string> note_of_memory(const Plan& plan, const Graph& graph,
                                          const MachineProfile& profile) {
  constexpr double kNear = 0.5;  // of the limit; further below it the counts do not differ as much
  if (!plan.memory.limit) return std::nullopt;
  const auto limit = static_cast<double>(*plan.memory.limit);
  if (static_cast<double>(plan.memory.peak) < kNear * limit) return std::nullopt;
  const auto held =
      static_cast<double>(analyze::program_memory(partition_planned(plan, graph, profile)).peak);
  if (held <= limit) return std::nullopt;
  return fmt::format("by its schedule the program holds {}, and may hold {}; plan within {}",
                     bytes_text(held), bytes_text(limit),
                     bytes_text(limit / held * limit / plan.memory.share));
}

}  // namespace cleave::plan
