#include "cleave/plan/verify_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/analyze/memory_classes.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"
#include "cleave/plan/names.h"
#include "cleave/runtime/compare_runs.h"
#include "cleave/runtime/fill.h"

namespace cleave::plan {
namespace {

double argument_bytes(const Graph& graph, const std::string& entry) {
  double bytes = 0;
  for (const Type& type : graph.find_function(entry)->arg_types)
    if (type.is_tensor()) bytes += static_cast<double>(type.byte_count());
  return bytes;
}

double total_flops(const Graph& graph) {
  double flops = 0;
  graph.walk([&](NodeId id) { flops += op_cost(graph, graph.node(id)).flops; });
  return flops;
}

// Results of half precision differ by a few of its roundings, whatever type they come in.
constexpr double kRoundings = 1000, kHalfRoundings = 32;

double rounding(DType dtype) {
  return dtype == DType::BF16  ? 0x1p-8
         : dtype == DType::F16 ? 0x1p-11
         : dtype == DType::F64 ? 0x1p-53
                               : 0x1p-24;
}

// How many roundings of its own type a result may be off: those of the coarsest type in use.
double units_for(DType result, double coarsest) {
  if (coarsest <= rounding(DType::F32)) return kRoundings;
  const double tolerance = std::max(kHalfRoundings * coarsest, kRoundings * rounding(DType::F32));
  return tolerance / rounding(result);
}

double coarsest_rounding(const Graph& graph) {
  double coarsest = 0;
  graph.walk([&](NodeId id) {
    for (ValueId value : graph.node(id).results) {
      const DType dtype = graph.type(value).dtype;
      if (dtype == DType::BF16 || dtype == DType::F16)
        coarsest = std::max(coarsest, rounding(dtype));
    }
  });
  return coarsest;
}

}  // namespace

Graph without_layout_ops(Graph flat) {
  GraphRewrite rewrite(flat);
  flat.walk([&](NodeId id) {
    const Node& node = flat.node(id);
    const bool marks =
        is<op::ShardingGroup, op::PropagationBarrier>(node) || !own_sharding_attr(node).empty();
    if (!marks) return;
    for (size_t i = 0; i < node.results.size(); ++i)
      rewrite.replace_uses(node.results[i], node.operands[i]);
    rewrite.erase(id);
  });
  rewrite.apply();
  return flat;
}

std::vector<Array> verification_arguments(const Program& program, uint64_t seed) {
  const analyze::MemoryClasses classes = analyze::memory_classes(program);
  const Function& entry = program.entry_function();
  std::vector<Array> args;
  for (size_t i = 0; i < entry.arg_types.size(); ++i) {
    const Type& type = entry.arg_types[i];
    if (!type.is_tensor()) {
      args.push_back(Array(DType::Bool, {0}));
      continue;
    }
    Array array = make_array(type, fmt::format("random:{}", seed + i));
    if (is_float(type.dtype)) {
      const bool is_moment = classes.arguments[i] == analyze::MemoryClass::OptimizerState;
      const Array scale = Array::scalar<float>(DType::F32, is_moment ? 1e-4F : 0.4F);
      array =
          binary(BinaryOp::Multiply, array, convert(scale, type.dtype).broadcast(type.shape, {}));
      if (is_moment) array = unary(UnaryOp::Abs, array);
    }
    args.push_back(std::move(array));
  }
  return args;
}

RunnableProgram runnable(Program program, const VerifyPlanOptions& options) {
  RunnableProgram result{std::move(program), {}, {}};
  result.whole = without_transfers(result.program);
  const bool is_large = total_flops(result.whole) > options.most_flops ||
                        argument_bytes(result.whole, result.program.entry) > options.most_bytes ||
                        result.program.mesh->num_devices() > options.shrink.most_devices;
  if (!is_large || options.keep_sizes) return result;
  Shrunk shrunk = shrink(result.program, options.shrink);
  result.changes = std::move(shrunk.changes);
  result.program = std::move(shrunk.program);
  result.whole = without_transfers(result.program);
  return result;
}

ResultCheck check_results(const Graph& whole, const std::string& entry,
                          const std::vector<Array>& args, const std::vector<Array>& expected,
                          const std::vector<Array>& sharded) {
  const double coarsest = coarsest_rounding(whole);
  const RunComparison comparison =
      compare_runs(whole, entry, args, expected, sharded,
                   {.units = [&](DType dtype) { return units_for(dtype, coarsest); }});
  ResultCheck check;
  check.num_results = expected.size();
  check.differences = comparison.differences;
  check.unsteady = unsteady_text(comparison);
  check.max_difference = comparison.max_difference;
  check.magnitude = comparison.scale;
  return check;
}

std::string to_string(const ResultCheck& check) {
  std::string text = fmt::format(
      "{} {} results are those of one device; largest difference {:.3g}, largest "
      "magnitude {:.3g}\n",
      check.differences.empty() ? "ok  " : "BAD ", check.num_results, check.max_difference,
      check.magnitude);
  if (!check.unsteady.empty()) text += "       " + check.unsteady + "\n";
  for (const std::string& difference : check.differences) text += "       " + difference + "\n";
  return text;
}

}  // namespace cleave::plan
