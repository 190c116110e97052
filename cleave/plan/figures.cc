#include "cleave/plan/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "cleave/analyze/kernels.h"
#include "cleave/analyze/memory_classes.h"
#include "cleave/core/kernel_classes.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/manual_axes.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/names.h"
#include "cleave/plan/op_costs.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave::plan {
namespace {

bool is_product(const OpCost& cost) {
  return cost.kernel == KernelClass::Matmul || cost.kernel == kConvolutionClass;
}

// Numbers for values, equal ones for values that are computed in the same way from the same
// values. A barrier changes nothing: that is how checkpoints keep a compiler from seeing that
// something is computed again.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Graph& graph) : graph_(graph), numbers_(graph.num_values(), -1) {}

  // Numbers the results of a node. True if another node computed them before.
  bool visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (flow_of(node) == Flow::Barrier) {
      for (size_t i = 0; i < node.results.size(); ++i)
        numbers_[node.results[i].index] = of(node.operands[i]);
      return false;
    }
    if (!node.def->has(kPure) || flow_of(node) != Flow::None) return false;
    std::string key;
    std::unordered_map<uint32_t, size_t> inside;
    describe(node, key, inside);
    const auto [it, is_new] = known_.try_emplace(std::move(key), node.results);
    for (size_t i = 0; i < node.results.size(); ++i)
      numbers_[node.results[i].index] = of(it->second[i]);
    return !is_new;
  }

 private:
  int64_t of(ValueId value) {
    int64_t& number = numbers_[value.index];
    if (number < 0) number = next_++;
    return number;
  }

  // `inside`: values of the scalar code around the node (the sum of a reduce), by their places.
  void describe(const Node& node, std::string& key, std::unordered_map<uint32_t, size_t>& inside) {
    auto enter = [&](ValueId value) { inside.emplace(value.index, inside.size()); };
    key += node.name();
    for (const NamedAttribute& attr : node.attrs.entries())
      if (attr.name != kShardingAttr && attr.name != kKernelAttr)
        key += " " + attr.name + "=" + to_string(attr.value);
    for (ValueId operand : node.operands) {
      const auto place = inside.find(operand.index);
      key += place == inside.end() ? fmt::format(" %{}", of(operand))
                                   : fmt::format(" ^{}", place->second);
    }
    for (ValueId result : node.results) key += " " + to_string(graph_.type(result));
    for (RegionId region : node.regions) {
      key += " (";
      for (ValueId arg : graph_.region(region).args) enter(arg);
      for (NodeId inner : graph_.region(region).nodes) {
        describe(graph_.node(inner), key, inside);
        for (ValueId result : graph_.node(inner).results) enter(result);
      }
      key += ")";
    }
  }

  const Graph& graph_;
  std::vector<int64_t> numbers_;  // by value; negative: none yet
  int64_t next_ = 0;
  std::unordered_map<std::string, std::vector<ValueId>> known_;
};

bool has_barrier(const Graph& graph, RegionId region) {
  return std::ranges::any_of(graph.region(region).nodes, [&](NodeId id) {
    const Node& node = graph.node(id);
    return flow_of(node) == Flow::Barrier || std::ranges::any_of(node.regions, [&](RegionId inner) {
             return has_barrier(graph, inner);
           });
  });
}

double flops_inside(const Graph& graph, const Node& node) {
  double flops = 0;
  for (RegionId region : node.regions)
    for (NodeId id : graph.region(region).nodes) {
      const Node& inner = graph.node(id);
      const OpCost cost = op_cost(graph, inner);
      if (is_product(cost)) flops += cost.flops;
      flops += flops_inside(graph, inner);
    }
  return flops;
}

// A manual computation has the shapes of a part: as many parts as its axes have devices.
double manual_flops(const Graph& graph, const Node& node, const Mesh& mesh) {
  double parts = 1;
  for (const std::string& axis : manual_axes_inside(node, {}))
    for (const MeshAxis& own : mesh.axes)
      if (own.name == axis) parts *= static_cast<double>(own.size);
  return flops_inside(graph, node) * parts;
}

// What the flow of data says about the arguments of a flat module.
class Arguments {
 public:
  Arguments(const Graph& flat, const std::string& entry)
      : program_{flat, nullptr, {}, entry},
        graph_(program_.graph),
        args_(graph_.region(program_.entry_function().body).args),
        uses_(graph_),
        classes_(analyze::memory_classes(program_).arguments) {}

  // Integers [batch, length] that rows of a table are looked up by. All such arguments must agree.
  std::optional<StepItems> tokens() const {
    std::optional<double> count;
    for (size_t i = 0; i < args_.size(); ++i) {
      const Type& type = graph_.type(args_[i]);
      if (!is_input(i) || !type.is_tensor() || !type.has_static_shape() || type.rank() != 2 ||
          !is_integer(type.dtype) || !is_looked_up(args_[i]))
        continue;
      const auto elements = static_cast<double>(num_elements(looked_up_shape(args_[i])));
      if (count && *count != elements) return std::nullopt;
      count = elements;
    }
    if (!count || *count <= 1) return std::nullopt;
    return StepItems{"tokens", *count};
  }

  // What convolutions take from arguments directly. All of them must agree.
  std::optional<StepItems> samples() const {
    std::optional<double> count;
    for (uint32_t n = 0; n < graph_.num_nodes(); ++n) {
      const Node& node = graph_.node({n});
      if (!is<op::Convolution>(node) || node.operands.size() < 2) continue;
      const int input = argument_of(node.operands[0]), kernel = argument_of(node.operands[1]);
      if (input < 0 || !is_input(input) || kernel < 0 || kernel == input) continue;
      const Shape& shape = graph_.operand_type(node, 0).shape;
      const auto batch =
          static_cast<double>(shape[static_cast<size_t>(conv_dims(node).input_batch)]);
      if (count && *count != batch) return std::nullopt;
      count = batch;
    }
    if (!count) return std::nullopt;
    return StepItems{"samples", *count};
  }

 private:
  bool is_input(size_t i) const { return classes_[i] == analyze::MemoryClass::Inputs; }

  static bool is_passed_on(const Node& node) {
    return node.def->has(kElementwise) || node.def->has(kRelabels) || node.def->has(kRepeats) ||
           node.def->has(kViewLike) || flow_of(node) == Flow::Barrier || is<op::Convert>(node) ||
           is<op::Slice>(node) || is<op::Concatenate>(node);
  }

  // Whether a gather takes it as indices, or a product takes what it was compared with (one-hot).
  bool is_looked_up(ValueId value) const {
    std::vector<std::pair<ValueId, bool>> reached{{value, false}};
    std::vector<bool> seen(graph_.num_values());
    for (size_t at = 0; at < reached.size(); ++at)
      for (const Use& use : uses_.uses(reached[at].first)) {
        const Node& node = graph_.node(use.node);
        if (is<op::Gather>(node) && use.operand == 1) return true;
        const bool compared = reached[at].second || is<op::Compare>(node);
        if (compared && is<op::DotGeneral>(node)) return true;
        if (!is_passed_on(node) || node.results.empty() || seen[node.results[0].index]) continue;
        seen[node.results[0].index] = true;
        reached.push_back({node.results[0], compared});
      }
    return false;
  }

  // Batches of length + 1, of which the first and the last `length` are used, count as `length`.
  const Shape& looked_up_shape(ValueId value) const {
    const Shape* shape = nullptr;
    for (const Use& use : uses_.uses(value)) {
      const Node& node = graph_.node(use.node);
      if (!is<op::Slice>(node)) return graph_.type(value).shape;
      const Shape& part = graph_.result_type(node).shape;
      if (shape && part != *shape) return graph_.type(value).shape;
      shape = &part;
    }
    return shape ? *shape : graph_.type(value).shape;
  }

  // The argument that a value is but for order and precision; -1 if there is none.
  int argument_of(ValueId value) const {
    while (true) {
      const Value& v = graph_.value(value);
      if (!v.producer.valid())
        return v.region == program_.entry_function().body ? static_cast<int>(v.index) : -1;
      const Node& node = graph_.node(v.producer);
      const bool passes = is<op::Convert>(node) || is<op::Transpose>(node) ||
                          node.def->has(kRelabels) || flow_of(node) == Flow::Barrier;
      if (!passes) return -1;
      size_t i = 0;
      while (i + 1 < node.results.size() && node.results[i] != value) ++i;
      value = node.operands[std::min(i, node.operands.size() - 1)];
    }
  }

  const Program program_;
  const Graph& graph_;
  const std::vector<ValueId>& args_;
  const UseMap uses_;
  const std::vector<analyze::MemoryClass> classes_;
};

}  // namespace

ModelFlops model_flops(const BoundPlan& bound) {
  const Plan& plan = bound.plan;
  const Graph& flat = bound.flat;
  ModelFlops result;
  ValueNumbers numbers(flat);
  using Kind = std::pair<DType, bool>;
  std::map<Kind, double> by_kind;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const Node& node = flat.node(bound.ops[i].node);
    const bool is_repeated = numbers.visit(bound.ops[i].node);
    if (const std::optional<LoopRegions> loop = loop_of(node))
      result.is_of_program |= has_barrier(flat, loop->body) && flops_inside(flat, node) > 0;
    if (flow_of(node) == Flow::Manual) {
      result.flops += manual_flops(flat, node, *plan.mesh) * plan.ops[i].times;
      continue;
    }
    const OpCost cost = op_cost(flat, node);
    if (!is_product(cost)) continue;
    (is_repeated ? result.recomputed : result.flops) += cost.flops * plan.ops[i].times;
    Kind kind{flat.operand_type(node, 0).dtype, cost.products.is_exact};
    by_kind[kind] += cost.flops * plan.ops[i].times;
  }
  double most = 0;
  for (const auto& [kind, flops] : by_kind)
    if (flops > most) {
      most = flops;
      std::tie(result.dtype, result.is_exact) = kind;
    }
  return result;
}

std::optional<StepItems> step_items(const Graph& flat, const std::string& entry) {
  const Arguments arguments(flat, entry);
  const std::optional<StepItems> tokens = arguments.tokens(), samples = arguments.samples();
  if (tokens && samples) return std::nullopt;
  return tokens ? tokens : samples;
}

StepLimits step_limits(const BoundPlan& bound, const MachineProfile& profile) {
  const Plan& plan = bound.plan;
  const Graph& flat = bound.flat;
  const ComputeQuestions questions(flat, plan.mesh, profile);
  StepLimits limits;
  // Ops of one kind that take the same time are limited by the same.
  std::map<std::pair<std::string_view, double>, ComputeCost> known;
  double compute = 0;
  bool has_manual = false;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlannedOp& op = plan.ops[i];
    if (op.seconds <= 0 || op.times <= 0) continue;
    const Node& node = flat.node(bound.ops[i].node);
    has_manual |= flow_of(node) == Flow::Manual;
    if (const Flow flow = flow_of(node); flow != Flow::None && flow != Flow::Scan) continue;
    if (node.def->has(kTerminator)) continue;  // the host's part
    auto [it, is_new] = known.try_emplace({op.op, op.seconds});
    if (is_new) {
      OpLayouts specs;
      for (const PlannedOperand& operand : op.operands) specs.operands.push_back(operand.spec);
      specs.results = op.results;
      it->second = questions.ask(bound.ops[i].node, specs);
    }
    const ComputeCost& cost = it->second;
    const double seconds = op.seconds * op.times;
    const double launch =
        cost.seconds > 0 ? seconds * std::min(1.0, cost.launch / cost.seconds) : 0;
    compute += seconds;
    limits.launches += launch;
    const bool is_arithmetic = cost.arithmetic >= cost.memory;
    double& rest = !is_arithmetic                    ? limits.memory
                   : is_product(op_cost(flat, node)) ? limits.products
                                                     : limits.arithmetic;
    rest += seconds - launch;
  }
  limits.host =
      analyze::step_seconds(flat, bound.body(), shared_by(profile, plan.mesh->num_devices()));
  limits.communication = std::max(0.0, plan.totals.step_seconds - plan.totals.compute_seconds);
  // The rest is what broken kernels write and read, unless there are ops that are not looked into.
  const double rest = std::max(0.0, plan.totals.compute_seconds - compute - limits.host);
  (has_manual ? limits.manual : limits.memory) += rest;
  return limits;
}

PlanFigures plan_figures(const Plan& plan, const Graph& graph, const MachineProfile& profile) {
  const Graph flat = flatten(graph, plan.entry, profile);
  const BoundPlan bound = bind(plan, flat);
  PlanFigures figures;
  const ModelFlops model = model_flops(bound);
  figures.model_flops = model.flops;
  figures.recomputed_flops = model.recomputed;
  figures.is_of_program = model.is_of_program;
  const bool is_tf32 = model.dtype == DType::F32 && profile.executor.tf32 && !model.is_exact;
  const DType dtype = is_tf32 ? DType::TF32 : model.dtype;
  figures.dtype = name(dtype);
  if (const auto peak = profile.peak_tflops.find(dtype); peak != profile.peak_tflops.end())
    figures.peak_flops = peak->second * 1e12 * static_cast<double>(plan.mesh->num_devices());
  const double seconds = plan.totals.step_seconds;
  if (figures.peak_flops > 0 && seconds > 0)
    figures.utilization = model.flops / seconds / figures.peak_flops;
  if (const std::optional<StepItems> items = step_items(flat, plan.entry); items && seconds > 0) {
    figures.items = items->what;
    figures.items_per_second = items->count / seconds;
  }
  const StepLimits limits = step_limits(bound, profile);
  for (const auto& [what, part] : {std::pair{"products", limits.products},
                                   {"other arithmetic", limits.arithmetic},
                                   {"memory", limits.memory},
                                   {"launches", limits.launches},
                                   {"host", limits.host},
                                   {"manual computations", limits.manual},
                                   {"communication", limits.communication}})
    if (part > 0) figures.limits.push_back({what, part});
  return figures;
}

std::string to_string(const PlanFigures& figures) {
  std::string text;
  if (figures.utilization > 0) {
    text += fmt::format("MFU {:.3g}%: {:.3g} FLOP of the {} a step, {:.4g} TFLOP/s of {} at most",
                        100 * figures.utilization, figures.model_flops,
                        figures.is_of_program ? "program" : "model", figures.peak_flops * 1e-12,
                        figures.dtype);
    if (figures.recomputed_flops > 0)
      text += fmt::format(", {:.3g} FLOP computed again", figures.recomputed_flops);
    text += "\n";
  }
  if (!figures.items.empty())
    text += fmt::format("{:.4g} {}/s\n", figures.items_per_second, figures.items);
  double total = 0;
  for (const PlanFigures::Share& share : figures.limits) total += share.seconds;
  std::string limits;
  for (const PlanFigures::Share& share : figures.limits)
    if (share.seconds >= 0.0005 * total)
      limits += fmt::format("{}{} {:.1f}%", limits.empty() ? "" : ", ", share.what,
                            100 * share.seconds / total);
  if (!limits.empty()) text += "limited by " + limits + "\n";
  return text;
}

}  // namespace cleave::plan
