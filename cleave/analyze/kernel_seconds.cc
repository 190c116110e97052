#include <algorithm>

#include "cleave/analyze/kernels.h"
#include "cleave/core/kernel_classes.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {

std::optional<KernelUse> kernel_use(const Node& node) {
  constexpr size_t kNumbers = 7;  // before reads, writes and spills
  const Attribute* attr = node.attrs.find(kKernelAttr);
  const auto* array = attr ? attr->as<DenseArrayAttr>() : nullptr;
  const size_t operands = node.operands.size(), results = node.results.size();
  if (!array || array->floats.size() != kNumbers + operands + 2 * results) return std::nullopt;
  KernelUse use;
  use.launches = array->floats[0];
  use.works = array->floats[1];
  use.is_library = array->floats[2] != 0;
  use.attention = array->floats[3];
  use.workspace = array->floats[4];
  use.gaps = array->floats[5];
  use.reorders = array->floats[6] != 0;
  auto next = array->floats.begin() + kNumbers;
  auto take = [&](std::vector<double>& list, size_t count) {
    list.assign(next, next + static_cast<ptrdiff_t>(count));
    next += static_cast<ptrdiff_t>(count);
  };
  take(use.reads, operands);
  take(use.writes, results);
  take(use.spills, results);
  return use;
}

namespace {

// A whole product at the rate that products reach inside a kernel of attention.
double attention_seconds(const Graph& graph, const Node& node, const MachineProfile& profile) {
  const OpCost cost = op_cost(graph, node);
  const DType dtype = graph.operand_type(node, 0).dtype;
  if (profile.attention_tflops <= 0 || byte_size(dtype) != 2)
    return product_seconds(cost, dtype, profile);
  return cost.flops / (profile.attention_tflops * 1e12);
}

}  // namespace

double kernel_seconds(const Graph& graph, const Node& node, const KernelUse& use,
                      const MachineProfile& profile) {
  auto bytes = [&](ValueId value) {
    const Type& type = graph.type(value);
    return type.is_tensor() && type.has_static_shape() ? static_cast<double>(type.byte_count()) : 0;
  };
  double moved = 0;
  for (size_t i = 0; i < node.operands.size(); ++i) moved += use.reads[i] * bytes(node.operands[i]);
  double seconds = use.launches * profile.executor.launch_us * 1e-6;
  if (use.attention > 0) {
    seconds += use.attention * attention_seconds(graph, node, profile);
    for (size_t i = 0; i < node.results.size(); ++i)
      moved += use.writes[i] * bytes(node.results[i]);
  } else if (use.is_library) {
    OpCost cost = op_cost(graph, node);
    cost.products.k *= use.gaps;
    cost.flops *= use.gaps;
    const DType given = graph.operand_type(node, 0).dtype;
    const bool rounds = profile.executor.tf32 && given == DType::F32 && !cost.products.is_exact;
    const double share = use.gaps > 1 ? profile.tiles.dilated_share : 1;
    seconds += product_seconds(cost, rounds ? DType::TF32 : given, profile) / share;
  } else {
    for (size_t i = 0; i < node.results.size(); ++i)
      moved += use.writes[i] * bytes(node.results[i]);
    if (use.works > 0 && !node.results.empty() && bytes(node.results[0]) > 0)
      seconds += use.works * static_cast<double>(num_elements(graph.result_type(node).shape)) /
                 (profile.executor.vector_tops * 1e12);
  }
  return seconds + moved / (profile.memory_gbps * 1e9);
}

double spill_seconds(double spill_bytes, const ShardingSpec& from, const MachineProfile& profile) {
  if (spill_bytes <= 0) return 0;
  auto parts = static_cast<double>(total_size(from.partial));
  for (const DimSpec& dim : from.dims) parts *= static_cast<double>(total_size(dim.axes));
  return profile.executor.launch_us * 1e-6 + spill_bytes / parts / (profile.memory_gbps * 1e9);
}

double spill_bytes(const Graph& graph, ValueId value) {
  const Value& made = graph.value(value);
  if (!made.producer.valid()) return 0;
  const std::optional<KernelUse> use = kernel_use(graph.node(made.producer));
  return use ? use->spills[made.index] : 0;
}

bool is_marked(const Graph& graph, RegionId body) {
  return graph.node(graph.terminator(body)).attrs.has(kKernelAttr);
}

double step_seconds(const Graph& graph, RegionId body, const MachineProfile& profile) {
  const ExecutorProfile& executor = profile.executor;
  if (!is_marked(graph, body)) return 0;
  const auto arguments = static_cast<double>(graph.region(body).args.size());
  return 1e-6 * (executor.step_us + arguments * executor.argument_us);
}

}  // namespace cleave::analyze
