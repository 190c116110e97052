#include <fmt/format.h>

#include "cleave/compile/executable.h"
#include "cleave/core/units.h"

namespace cleave {

std::string describe(const Executable& executable) {
  if (!executable.is_compiled()) return "not compiled: runs op by op\n";
  const CodeStats stats = executable.stats();
  std::string text = fmt::format(
      "compiled: {} steps ({} fusions of {} ops, {} matmuls, {} convolutions, {} of them with {} "
      "ops "
      "fused into them, {} copies, {} transfers, {} other kernels)\n",
      stats.steps, stats.fusions, stats.fused_ops, stats.matmuls, stats.convolutions,
      stats.epilogues, stats.epilogue_ops, stats.copies, stats.transfers, stats.fallbacks);
  text += fmt::format(
      "memory of a device: arena {} (bound {}), arguments {}, results {} ({} in the memory of "
      "arguments), constants {}\n",
      bytes_text(static_cast<int64_t>(stats.arena_bytes)),
      bytes_text(static_cast<int64_t>(stats.arena_lower_bound)),
      bytes_text(static_cast<int64_t>(stats.argument_bytes)),
      bytes_text(static_cast<int64_t>(stats.result_bytes)), stats.donated,
      bytes_text(static_cast<int64_t>(stats.constant_bytes)));
  for (const PassTiming& timing : executable.pass_timings())
    text += fmt::format("{:10.3f} ms  {}\n", timing.seconds * 1e3, timing.name);
  return text;
}

}  // namespace cleave
