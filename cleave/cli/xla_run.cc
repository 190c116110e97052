#include "cleave/cli/xla_run.h"

#include <fmt/format.h>

#include <cstdlib>

#include "cleave/cli/ranks.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/pjrt/find_plugins.h"
#include "cleave/pjrt/xla_executable.h"

namespace cleave::cli {
namespace {

void print_stats(const pjrt::XlaExecutable& executable) {
  const pjrt::ProgramMemory memory = executable.program().memory_stats();
  fmt::print(stderr,
             "XLA ({} {}): {} device{}; memory of each: {} of arguments, {} of results, {} of them "
             "in arguments, {} temporary\n",
             executable.client().platform(), executable.client().plugin().name(),
             executable.num_devices(), executable.num_devices() == 1 ? "" : "s",
             bytes_text(memory.arguments), bytes_text(memory.outputs), bytes_text(memory.aliased),
             bytes_text(memory.temporary));
}

}  // namespace

bool is_xla_engine(const std::string& engine) {
  return engine == "xla" || engine.starts_with("xla:");
}

std::shared_ptr<pjrt::Client> xla_client(const std::string& engine, int64_t devices) {
  // Plugins write their own log to standard error; whoever wants it sets the variable.
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
  const std::string plugin = engine.size() > 4 ? engine.substr(4) : std::string();
  return pjrt::Client::shared(pjrt::plugin_path(plugin), devices);
}

std::vector<Array> run_on_xla(const Graph& graph, const std::string& entry,
                              const std::vector<Array>& args, const ShardingOptions& options) {
  check_arguments(graph, entry, args);
  pjrt::XlaModule module = pjrt::one_device_module(graph, entry);
  const pjrt::XlaExecutable executable(xla_client(options.engine, 1), std::move(module));
  std::vector<std::vector<Array>> results = executable.run({args});
  if (options.describe) print_stats(executable);
  return std::move(results[0]);
}

std::vector<Array> run_on_xla(const Program& program, const std::vector<Array>&,
                              const ShardingOptions& options) {
  throw_user("--engine {}: {} devices are not there yet", options.engine,
             program.mesh->num_devices());
}

}  // namespace cleave::cli
