#include "cleave/plan/heuristic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/machine/collective.h"
#include "cleave/plan/heuristic_backward.h"
#include "cleave/plan/layouts.h"
#include "cleave/plan/op_price.h"
#include "cleave/plan/pinned.h"
#include "cleave/rules/propagate/propagation.h"
#include "cleave/spmd/factor_axes.h"
#include "cleave/spmd/op_layouts.h"

namespace cleave::plan {
namespace {

std::string price_text(double seconds) {
  return seconds < 0 ? std::string("impossible") : fmt::format("{:.2f} us", seconds * 1e6);
}

// The ways to split a matmul along one axis, and the factor that each splits.
enum class Way : uint8_t { Data, Model, Contraction };
constexpr std::array<const char*, 3> kWayNames = {"data parallel", "model parallel", "contraction"};
using WayFactors = std::array<FactorIndex, 3>;  // -1: there is none

class Heuristic {
 public:
  Heuristic(PlannedModule& module, const PlannerOptions& options, MeshPtr mesh)
      : graph_(module.flat),
        options_(options),
        mesh_(std::move(mesh)),
        names_(module.names),
        body_(graph_.find_function(options.entry)->body),
        backward_(graph_, body_) {}

  void run() {
    size_t count = 0;
    graph_.walk(body_, [&](NodeId) { ++count; });
    say(fmt::format("Phase 1: {} nodes, {} arguments, mesh {}", count,
                    graph_.region(body_).args.size(), to_string(*mesh_)));
    say("Phase 2: seeds");
    size_t index = 0;
    std::vector<NodeId> nodes;
    graph_.walk(body_, [&](NodeId id) { nodes.push_back(id); });
    for (NodeId id : nodes) {
      if (names_.nodes[id.index].empty()) continue;
      seed(id, index++);
    }
    say(fmt::format("  {} of {} strategic nodes seeded", seeded_, strategic_));
    say("Phase 3: propagation");
    propagate(graph_, [this](const PropagationEngine& engine) { tell_sweeps(engine); });
    warn_about_gaps();
    say("Phase 4: export");
    export_nodes();
  }

 private:
  void say(const std::string& line) const {
    if (options_.trace) options_.trace("[Solver] " + line);
  }

  // A sweep visits ops until nothing changes. There is one for each stage of each priority; the
  // last stage is that of all ops.
  void tell_sweeps(const PropagationEngine& engine) const {
    std::map<std::pair<int, int>, size_t> changed;  // by priority and stage
    std::set<int> priorities{0};
    for (const ShardingChange& change : engine.changes()) {
      priorities.insert(change.priority);
      if (change.cause != ChangeCause::Priority) ++changed[{change.priority, change.stage}];
    }
    int iterations = 0;
    for (int priority : priorities)
      for (int stage = 0; stage < kNumOpStages; ++stage)
        say(fmt::format("Propagation iteration {}: changed={}", ++iterations,
                        changed[{priority, stage}]));
    say(fmt::format("Fixed-point reached after {} iterations", iterations));
  }

  // The largest factor for each way. A factor that both operands and the result have is a batch:
  // it is data parallel, and cuts the weights too.
  static std::optional<WayFactors> factors_of(const FactorChooser& chooser,
                                              const OpShardingRule& rule) {
    WayFactors best{-1, -1, -1};
    bool contracts = false;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const auto factor = static_cast<FactorIndex>(f);
      const bool first = has_factor(rule.operands[0], factor);
      const bool second = has_factor(rule.operands[1], factor);
      const bool reduces = rule.factors[f].kind == FactorKind::Reduction;
      contracts |= reduces;
      if (!chooser.runs_apart(factor) || (!first && !second)) continue;
      if (reduces ? !(first && second) : !has_factor(rule.results[0], factor)) continue;
      const Way way = reduces ? Way::Contraction : first ? Way::Data : Way::Model;
      FactorIndex& known = best[static_cast<size_t>(way)];
      if (known < 0 || rule.factors[f].size > rule.factors[known].size) known = factor;
    }
    return contracts ? std::optional(best) : std::nullopt;
  }

  void seed(NodeId id, size_t index) {
    const Node& node = graph_.node(id);
    const std::string kind = node.name().substr(node.name().find('.') + 1);
    if (node.operands.size() != 2 || node.results.size() != 1) return;
    const OpRule rules = op_rule(graph_, node);
    const OpShardingRule* rule = rules.to_run(node);
    if (!rule) return;
    const FactorChooser chooser(graph_, node, *rule);
    const std::optional<WayFactors> factors = factors_of(chooser, *rule);
    if (!factors || graph_.operand_type(node, 1).rank() == 0) return;
    ++strategic_;
    say(fmt::format("Analyzing Node {}: {}", index, kind));
    const ValueId result = node.results[0];
    if (const auto given = get_sharding(graph_, result)) {
      say(fmt::format("  {} is fixed as {}; not seeded", names_.values[result.index],
                      to_string(*given)));
      return;
    }
    const FactorAxes axes = choose(id, *rule, *factors);
    OpLayouts layouts = layouts_for(graph_, node, mesh_, *rule, axes, nullptr);
    ShardingSpec& spec = layouts.results[0];
    spec.partial.clear();  // the all_reduce was priced
    say(fmt::format("  chosen: {} {}{}", names_.nodes[id.index], to_string(opened(spec)),
                    contraction_text(*factors, axes)));
    set_sharding(graph_, result, opened(spec));
    seed_contracted(node, *rule, *factors, axes, layouts);
    ++seeded_;
  }

  static ShardingSpec opened(ShardingSpec spec) {
    for (DimSpec& dim : spec.dims) dim.open = dim.axes.empty();
    return spec;
  }

  std::string contraction_text(const WayFactors& factors, const FactorAxes& axes) const {
    const FactorIndex contracted = factors[static_cast<size_t>(Way::Contraction)];
    if (contracted < 0 || axes[contracted].empty()) return "";
    return fmt::format(", contracted over {{{}}}", to_string(axes[contracted], *mesh_));
  }

  FactorAxes choose(NodeId id, const OpShardingRule& rule, const WayFactors& factors) const {
    const Node& node = graph_.node(id);
    OpPrice price(graph_, node, mesh_, *options_.profile);
    const bool trains = backward_.has_gradient(id, rule);
    FactorAxes axes(rule.factors.size());
    for (size_t a = 0; a < mesh_->axes.size(); ++a) {
      const AxisRef ref = whole_axis(*mesh_, static_cast<int>(a));
      if (ref.size == 1) continue;
      std::array<double, 3> seconds{};
      std::optional<size_t> best;
      std::string text;
      for (size_t w = 0; w < kWayNames.size(); ++w) {
        seconds[w] = cost(node, rule, price, axes, factors[w], ref, static_cast<Way>(w), trains);
        text += fmt::format("{}{} {}", w ? ", " : "", kWayNames[w], price_text(seconds[w]));
        if (seconds[w] >= 0 && (!best || seconds[w] < seconds[*best])) best = w;
      }
      say(fmt::format("  axis {}: {} -> {}", mesh_->axes[a].name, text,
                      best ? kWayNames[*best] : "replicated"));
      if (best)
        axes[factors[*best]].push_back(ref);
      else
        say(fmt::format("  Warning: axis {} stays unused at {}", mesh_->axes[a].name,
                        names_.nodes[id.index]));
    }
    return axes;
  }

  // A contraction is said by the operands, as far as nobody else has laid them out.
  void seed_contracted(const Node& node, const OpShardingRule& rule, const WayFactors& factors,
                       const FactorAxes& axes, const OpLayouts& layouts) {
    const FactorIndex contracted = factors[static_cast<size_t>(Way::Contraction)];
    if (contracted < 0 || axes[contracted].empty()) return;
    const std::vector<ValueId> operands = node.operands;
    for (size_t i = 0; i < operands.size(); ++i)
      if (!get_sharding(graph_, operands[i]) && has_factor(rule.operands[i], contracted))
        set_sharding(graph_, operands[i], opened(layouts.operands[i]));
  }

  // Whether the operands can be split there: they may have a layout that says otherwise.
  bool can_contract(const Node& node, const OpShardingRule& rule, FactorIndex factor,
                    const AxisRef& ref) const {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const auto given = get_sharding(graph_, node.operands[i]);
      if (!given) continue;
      for (size_t d = 0; d < given->dims.size(); ++d) {
        const DimFactors& dim = rule.operands[i][d];
        const bool here = std::find(dim.begin(), dim.end(), factor) != dim.end();
        const bool has = overlaps_any(ref, given->dims[d].axes);
        if (here ? !has && !given->dims[d].open : has) return false;
      }
    }
    return true;
  }

  // Negative: the factor cannot take the axis.
  double cost(const Node& node, const OpShardingRule& rule, OpPrice& price, FactorAxes axes,
              FactorIndex factor, const AxisRef& ref, Way way, bool trains) const {
    if (factor < 0) return -1;
    axes[factor].push_back(ref);
    if (!splits_well(rule.factors[factor].size, total_size(axes[factor]))) return -1;
    if (way == Way::Contraction && !can_contract(node, rule, factor, ref)) return -1;
    const OpLayouts layouts = layouts_for(graph_, node, mesh_, rule, axes, nullptr);
    auto bytes = [&](const ShardingSpec& spec, ValueId value) {
      return static_cast<double>(num_elements(local_shape(spec, graph_.type(value).shape)) *
                                 byte_size(graph_.type(value).dtype));
    };
    auto seconds = [&](CollectiveKind kind, double moved) {
      return collective_seconds(kind, moved, *mesh_, {ref}, *options_.profile);
    };
    const double compute = price.seconds(layouts.operands, layouts.results);
    const double result = bytes(layouts.results[0], node.results[0]);
    switch (way) {
      case Way::Data: {
        const bool is_batch = has_factor(rule.operands[1], factor);
        if (!trains || is_batch) return compute;
        return compute +
               seconds(CollectiveKind::AllReduce, bytes(layouts.operands[1], node.operands[1]));
      }
      case Way::Model:
        return compute + seconds(CollectiveKind::AllGather, result * static_cast<double>(ref.size));
      case Way::Contraction:
        return compute + seconds(CollectiveKind::AllReduce, result);
    }
    return -1;
  }

  void warn_about_gaps() const {
    for (uint32_t i = 0; i < names_.nodes.size(); ++i) {
      const Node& node = graph_.node({i});
      if (names_.nodes[i].empty() || node.def->has(kTerminator) || node.operands.empty()) continue;
      const bool flows =
          !node.regions.empty() || node.def->has(kDataFlow) || node.def->has(kSameValue);
      if (!flows && !op_rule(graph_, node).to_run(node))
        say(fmt::format("  Warning: {} has no rule; nothing spreads through it", names_.nodes[i]));
      for (ValueId result : node.results)
        if (is_ranked_tensor(graph_.type(result)) && graph_.type(result).rank() > 0 &&
            !get_sharding(graph_, result))
          say(
              fmt::format("  Warning: {} has no solution: no layout reached it, and it is whole on "
                          "every device",
                          names_.values[result.index]));
    }
  }

  void export_nodes() const {
    for (uint32_t i = 0; i < names_.nodes.size(); ++i)
      for (ValueId result : graph_.node({i}).results) {
        const auto spec = names_.nodes[i].empty() ? std::nullopt : get_sharding(graph_, result);
        if (spec && !spec->is_fully_replicated())
          say(fmt::format("  {}: {}", names_.values[result.index], to_string(*spec)));
      }
  }

  Graph& graph_;
  const PlannerOptions& options_;
  const MeshPtr mesh_;
  const Names& names_;
  const RegionId body_;
  const BackwardFinder backward_;
  int strategic_ = 0, seeded_ = 0;
};

}  // namespace

PlannerResult plan_by_heuristic(const Graph& graph, const PlannerOptions& options) {
  const MeshPtr mesh = named(options.mesh);
  PlannedModule module = prepare(graph, options.entry, *options.profile);
  annotate(module, options, mesh);
  Heuristic(module, options, mesh).run();
  return price_annotations(module, options, mesh, "heuristic");
}

}  // namespace cleave::plan
