#include <algorithm>

#include "cleave/analyze/kernels.h"
#include "cleave/compile/convolution_loops.h"
#include "cleave/compile/fuse.h"
#include "cleave/core/kernel_classes.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

constexpr size_t kHeader = 11;  // numbers of a mark before those of operands and results

}  // namespace

namespace {

// As set_kernel_use wrote them; null: there are none.
const DenseArrayAttr* marks_of(const Node& node) {
  const Attribute* attr = node.attrs.find(kKernelAttr);
  const auto* array = attr ? attr->as<DenseArrayAttr>() : nullptr;
  const size_t count = kHeader + node.operands.size() + 2 * node.results.size();
  return array && array->floats.size() == count ? array : nullptr;
}

}  // namespace

std::optional<KernelUse> kernel_use(const Node& node) {
  const DenseArrayAttr* array = marks_of(node);
  const size_t operands = node.operands.size(), results = node.results.size();
  if (!array) return std::nullopt;
  KernelUse use;
  use.launches = array->floats[0];
  use.works = array->floats[1];
  use.is_library = array->floats[2] != 0;
  use.attention = array->floats[3];
  use.is_backward = array->floats[4] != 0;
  use.least_us = array->floats[5];
  use.workspace = array->floats[6];
  use.gaps = array->floats[7];
  use.reorders = array->floats[8] != 0;
  use.is_early = array->floats[9] != 0;
  use.clamped = array->floats[10];
  auto next = array->floats.begin() + kHeader;
  auto take = [&](std::vector<double>& list, size_t count) {
    list.assign(next, next + static_cast<ptrdiff_t>(count));
    next += static_cast<ptrdiff_t>(count);
  };
  take(use.reads, operands);
  take(use.writes, results);
  take(use.spills, results);
  return use;
}

bool has_kernel_use(const Node& node) { return marks_of(node) != nullptr; }

double kernel_writes(const Node& node, size_t result) {
  const DenseArrayAttr* marks = marks_of(node);
  return marks ? marks->floats[kHeader + node.operands.size() + result] : 1;
}

void set_kernel_use(Node& node, const KernelUse& use) {
  DenseArrayAttr array{DType::F64,
                       {},
                       {use.launches, use.works, use.is_library ? 1.0 : 0.0, use.attention,
                        use.is_backward ? 1.0 : 0.0, use.least_us, use.workspace, use.gaps,
                        use.reorders ? 1.0 : 0.0, use.is_early ? 1.0 : 0.0, use.clamped}};
  for (const std::vector<double>* list : {&use.reads, &use.writes, &use.spills})
    array.floats.insert(array.floats.end(), list->begin(), list->end());
  node.attrs.set(kKernelAttr, std::move(array));
}

namespace {

// A whole product at the rate that products reach inside a kernel of attention. The smallest of its
// sizes is that of a head.
double attention_seconds(const Graph& graph, const Node& node, bool is_backward,
                         const MachineProfile& profile) {
  constexpr double kSmallHead = 64;
  const OpCost cost = op_cost(graph, node);
  const DType dtype = graph.operand_type(node, 0).dtype;
  if (profile.attention_tflops <= 0 || byte_size(dtype) != 2)
    return product_seconds(cost, dtype, profile);
  const bool has_own = is_backward && profile.attention_backward_tflops > 0;
  const double rate = has_own ? profile.attention_backward_tflops : profile.attention_tflops;
  const OpCost::Products& p = cost.products;
  const bool is_small = std::min({p.m, p.n, p.k}) <= kSmallHead;
  return cost.flops / (rate * (is_small ? profile.attention_small_heads : 1) * 1e12);
}

// Kernels that a marked node is or ends.
double kernels_of(const KernelUse& use) { return use.launches + (use.is_library ? 1 : 0); }

// The elements that an op's loop runs over: of a reduction, those that it takes.
double loop_elements(const Graph& graph, const Node& node) {
  double most = 0;
  for (const auto* values : {&node.operands, &node.results})
    for (ValueId value : *values)
      if (graph.type(value).is_tensor() && graph.type(value).has_static_shape())
        most = std::max(most, static_cast<double>(num_elements(graph.type(value).shape)));
  return most;
}

// A key of MachineProfile::loops: the name of the op, or how it moves elements in rows and columns.
std::string_view loop_name(const Graph& graph, const Node& node) {
  if (is<op::Reduce>(node)) {
    FusionLevel level;
    int64_t columns = 0;
    if (!reduction_level(graph.operand_type(node, 0).shape,
                         node.attrs.get_ints_or_empty("dimensions"), level, columns))
      return "reduce.mixed";
    if (level == FusionLevel::Columns) return "reduce.columns";
    const Node& reducer = graph.node(graph.region(node.regions[0]).nodes[0]);
    return is<op::Maximum, op::Minimum>(reducer) ? "largest.rows" : "reduce.rows";
  }
  if (node.def->has(kRepeats)) {
    int64_t times = 0;
    const bool rows = spreads_rows(graph.operand_type(node, 0).shape, graph.result_type(node).shape,
                                   node.attrs.get_ints_or_empty("broadcast_dimensions"), times);
    return rows ? "broadcast.rows" : "broadcast.columns";
  }
  const std::string_view name = node.name();
  return name.substr(name.find('.') + 1);
}

// Of a loop that is measured by its own name, or not at all.
double measured_seconds(std::string_view loop, DType dtype, double times,
                        const MachineProfile& profile) {
  return profile.loops.contains(loop)
             ? loop_seconds(loop, KernelClass::Elementwise, dtype, times, profile)
             : 0;
}

double work_seconds(const Graph& graph, const Node& node, const MachineProfile& profile) {
  if (profile.executor.vector_tops > 0)
    return static_cast<double>(num_elements(graph.result_type(node).shape)) /
           (profile.executor.vector_tops * 1e12);
  std::string_view loop = loop_name(graph, node);
  if (loop == "largest.rows" && !profile.loops.contains(loop)) loop = "reduce.rows";
  const DType dtype = graph.result_type(node).dtype;
  double seconds =
      loop_seconds(loop, op_cost(graph, node).kernel, dtype, loop_elements(graph, node), profile);
  auto elements = [&](const Type& type) { return static_cast<double>(num_elements(type.shape)); };
  if (loop == "reduce.rows" || loop == "largest.rows")
    seconds += measured_seconds(loop.substr(0, loop.size() - 1), dtype,
                                elements(graph.result_type(node)), profile);
  if (loop == "broadcast.rows")
    seconds +=
        measured_seconds("broadcast.row", dtype, elements(graph.operand_type(node, 0)), profile);
  return seconds;
}

// The model of products, or that of an op by itself.
double own_seconds(const Graph& graph, const Node& node, const KernelUse& use,
                   const MachineProfile& profile) {
  const DType given =
      node.operands.empty() ? graph.result_type(node).dtype : graph.operand_type(node, 0).dtype;
  if (is<op::Convolution>(node) && profile.loops.contains(kConvolutionCall)) {
    double seconds = 0;
    for (const FusionTiming::Loop& loop : convolution_loops(graph, node))
      seconds += measured_seconds(loop.op, given, loop.elements, profile);
    return seconds;
  }
  OpCost cost = op_cost(graph, node);
  cost.products.k *= use.gaps;
  cost.flops *= use.gaps;
  const bool rounds = profile.executor.tf32 && given == DType::F32 && !cost.products.is_exact;
  const double share = use.gaps > 1 ? profile.tiles.dilated_share : 1;
  return product_seconds(cost, rounds ? DType::TF32 : given, profile) / share;
}

}  // namespace

double kernel_seconds(const Graph& graph, const Node& node, const KernelUse& use,
                      const MachineProfile& profile) {
  auto bytes = [&](ValueId value) {
    const Type& type = graph.type(value);
    return type.is_tensor() && type.has_static_shape() ? static_cast<double>(type.byte_count()) : 0;
  };
  double moving = 0;
  auto move = [&](double passes, ValueId value) {
    if (passes > 0) moving += passes * pass_seconds(bytes(value), profile);
  };
  for (size_t i = 0; i < node.operands.size(); ++i) move(use.reads[i], node.operands[i]);
  double seconds = use.launches * profile.executor.launch_us * 1e-6;
  if (use.attention > 0) {
    seconds += use.attention * attention_seconds(graph, node, use.is_backward, profile);
    for (size_t i = 0; i < node.results.size(); ++i) move(use.writes[i], node.results[i]);
  } else if (use.is_library) {
    seconds += own_seconds(graph, node, use, profile);
  } else {
    for (size_t i = 0; i < node.results.size(); ++i) move(use.writes[i], node.results[i]);
    if (use.works > 0 && !node.results.empty() && bytes(node.results[0]) > 0)
      seconds += use.works * work_seconds(graph, node, profile);
  }
  return std::max(seconds + moving, use.least_us * 1e-6);
}

void wait_for_host(const Graph& graph, RegionId body, const MachineProfile& profile,
                   std::vector<KernelUse>& uses) {
  std::vector<std::pair<double, double>> kernels;  // seconds of the device and of the host
  double device = 0, host = 0;
  graph.walk(body, [&](NodeId id) {
    const double own = kernel_seconds(graph, graph.node(id), uses[id.index], profile);
    const double launch = kernels_of(uses[id.index]) * profile.executor.host_us * 1e-6;
    kernels.emplace_back(own, launch);
    device += own;
    host += launch;
  });
  if (host <= device) return;
  // The share of a launch that every kernel takes at least, so that all take what the host does.
  double low = 0, high = 1;
  for (int i = 0; i < 40; ++i) {
    const double share = (low + high) / 2;
    double total = 0;
    for (const auto& [own, launch] : kernels) total += std::max(own, share * launch);
    (total < host ? low : high) = share;
  }
  graph.walk(body, [&](NodeId id) {
    KernelUse& use = uses[id.index];
    use.least_us = high * kernels_of(use) * profile.executor.host_us;
  });
}

double spill_seconds(double spill_bytes, const ShardingSpec& from, const MachineProfile& profile) {
  if (spill_bytes <= 0) return 0;
  auto parts = static_cast<double>(total_size(from.partial));
  for (const DimSpec& dim : from.dims) parts *= static_cast<double>(total_size(dim.axes));
  return profile.executor.launch_us * 1e-6 + 2 * pass_seconds(spill_bytes / parts / 2, profile);
}

double spill_bytes(const Graph& graph, ValueId value) {
  const Value& made = graph.value(value);
  if (!made.producer.valid()) return 0;
  const Node& node = graph.node(made.producer);
  const DenseArrayAttr* marks = marks_of(node);
  return marks ? marks->floats[kHeader + node.operands.size() + node.results.size() + made.index]
               : 0;
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
