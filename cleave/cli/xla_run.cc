#include "cleave/cli/xla_run.h"

#include <fmt/format.h>

#include <cstdlib>

#include "cleave/pjrt/engine.h"
#include "cleave/runtime/interpreter.h"

namespace cleave::cli {
namespace {

std::vector<Array> run_and_tell(const pjrt::TensorProgram& program, const std::vector<Array>& args,
                                const ShardingOptions& options) {
  std::vector<Array> results = program.run(args);
  if (options.describe) fmt::print(stderr, "{}", pjrt::describe(program));
  return results;
}

}  // namespace

void quiet_plugins() { setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0); }

std::vector<Array> run_on_xla(const Graph& graph, const std::string& entry,
                              const std::vector<Array>& args, const ShardingOptions& options) {
  quiet_plugins();
  check_arguments(graph, entry, args);
  return run_and_tell(*pjrt::whole_program(options.engine, graph, entry), args, options);
}

std::vector<Array> run_on_xla(const Program& program, const std::vector<Array>& args,
                              const ShardingOptions& options) {
  quiet_plugins();
  return run_and_tell(*pjrt::sharded_program(options.engine, program), args, options);
}

}  // namespace cleave::cli
