#include "cleave/cli/xla_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cleave/cli/ranks.h"
#include "cleave/core/error.h"
#include "cleave/graph/builder.h"
#include "cleave/ops/op.h"
#include "cleave/pjrt/engine.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/xla/compiled_program.h"

namespace cleave::cli {
namespace {

void describe_run(const pjrt::TensorProgram& program, const ShardingOptions& options) {
  if (!speaks()) return;
  if (options.describe) fmt::print(stderr, "{}", pjrt::describe(program));
  if (!options.communication) return;
  const pjrt::XlaExecutable& executable = program.executable();
  xla::CompiledOptions read;
  read.devices = executable.num_devices();
  const std::string text = executable.program().compiled_text();
  fmt::print(stderr, "{}", to_string(xla::read_compiled(text, read), 0));
}

// As an op, or, as StableHLO's tests write it, as a call of that name.
bool is_check(const Node& node) {
  return node.name().starts_with("check.") ||
         (is<op::CustomCall>(node) && node.results.empty() &&
          node.attrs.get_string("call_target_name").starts_with("check."));
}

// check.* ops of a function's body, which XLA does not know: the function returns their operands
// instead, and Cleave evaluates them on what XLA computed.
struct Checks {
  Graph graph;  // the function without them
  Graph after;  // "checks": a function of the operands; has no function if there are none
  size_t results = 0;

  Checks(const Graph& whole, const std::string& entry) : graph(whole) {
    Function& function = *graph.find_function(entry);
    results = function.result_types.size();
    std::vector<NodeId> found;
    std::vector<Type> types;
    for (NodeId id : graph.region(function.body).nodes)
      if (is_check(graph.node(id))) found.push_back(id);
    if (found.empty()) return;
    Node& end = graph.node(graph.terminator(function.body));
    for (NodeId id : found)
      for (ValueId operand : graph.node(id).operands) {
        end.operands.push_back(operand);
        types.push_back(graph.type(operand));
      }
    function.result_types.insert(function.result_types.end(), types.begin(), types.end());
    if (!function.result_attrs.empty()) function.result_attrs.resize(function.result_types.size());
    GraphBuilder b = GraphBuilder::function(after, "checks", types);
    size_t next = 0;
    for (NodeId id : found) {
      const Node& node = graph.node(id);
      std::vector<ValueId> operands;
      for (size_t i = 0; i < node.operands.size(); ++i) operands.push_back(b.arg(next++));
      after.append(b.region(), after.add_node_like(node, operands, {}, node.attrs));
    }
    b.finish({});
    for (NodeId id : found) graph.remove(id);
  }

  // Evaluates the checks, and leaves the function's own results.
  void evaluate(std::vector<Array>& all) const {
    if (after.functions.empty()) return;
    run_function(after, "checks", std::span(all).subspan(results));
    all.resize(results);
  }
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs a program again and again, arguments on the devices, and prints what a run takes. Results
// take the place of the donated arguments that they fit, as they do in a training loop.
void time_runs(const pjrt::XlaExecutable& executable,
               std::vector<std::vector<pjrt::BufferPtr>> args, int64_t runs) {
  const pjrt::XlaModule& module = executable.module();
  std::vector<int64_t> place(module.arg_types.size(), -1);  // the result that takes an argument's
  std::vector<bool> taken(module.result_types.size(), false);
  for (size_t i = 0; i < place.size(); ++i)
    for (size_t r = 0; module.donated[i] && place[i] < 0 && r < taken.size(); ++r)
      if (!taken[r] && module.result_types[r] == module.arg_types[i]) {
        taken[r] = true;
        place[i] = static_cast<int64_t>(r);
      }
  std::vector<int64_t> keep;
  for (size_t i = 0; i < place.size(); ++i)
    if (module.donated[i] && place[i] < 0) keep.push_back(static_cast<int64_t>(i));
  std::vector<double> times;
  for (int64_t run = 0; run < runs + 2; ++run) {  // two to get warm
    const double begin = now();
    std::vector<std::vector<pjrt::BufferPtr>> results = executable.start(args, keep);
    for (const auto& row : results)
      for (const pjrt::BufferPtr& buffer : row) buffer->wait();
    if (run >= 2) times.push_back(now() - begin);
    for (size_t d = 0; d < args.size(); ++d)
      for (size_t i = 0; i < place.size(); ++i)
        if (place[i] >= 0) args[d][i] = results[d][static_cast<size_t>(place[i])];
  }
  if (!speaks()) return;
  std::sort(times.begin(), times.end());
  fmt::print(stderr, "{} runs: median {:.3f} ms, best {:.3f} ms, worst {:.3f} ms\n", runs,
             1e3 * times[times.size() / 2], 1e3 * times.front(), 1e3 * times.back());
}

std::vector<Array> run_and_tell(const pjrt::TensorProgram& program, const std::vector<Array>& args,
                                const ShardingOptions& options) {
  std::vector<Array> results = program.run(args);
  describe_run(program, options);
  if (options.repeat > 0) time_runs(program.executable(), program.to_devices(args), options.repeat);
  return results;
}

}  // namespace

void quiet_plugins() { setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0); }

std::vector<Array> run_on_xla(const Graph& graph, const std::string& entry,
                              const std::vector<Array>& args, const ShardingOptions& options) {
  quiet_plugins();
  check_arguments(graph, entry, args);
  const Checks checks(graph, entry);
  std::vector<Array> results =
      run_and_tell(*pjrt::whole_program(options.engine, checks.graph, entry), args, options);
  checks.evaluate(results);
  return results;
}

std::vector<Array> run_on_xla(const Program& program, const std::vector<Array>& args,
                              const ShardingOptions& options) {
  quiet_plugins();
  return run_and_tell(*pjrt::sharded_program(options.engine, program), args, options);
}

std::vector<std::vector<Array>> run_partitions_on_xla(const Graph& graph, const std::string& entry,
                                                      int64_t partitions,
                                                      const std::vector<std::vector<Array>>& args,
                                                      const std::string& engine) {
  quiet_plugins();
  pjrt::XlaModule module = pjrt::every_device_module(graph, entry, partitions);
  return pjrt::run_everywhere(
      pjrt::XlaExecutable(pjrt::engine_client(engine, partitions), std::move(module)), args);
}

}  // namespace cleave::cli
