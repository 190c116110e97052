#include "cleave/plan/heuristic.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/machine/collective.h"
#include "cleave/plan/layouts.h"
#include "cleave/plan/op_price.h"
#include "cleave/plan/pinned.h"
#include "cleave/spmd/factor_axes.h"
#include "cleave/spmd/op_layouts.h"

namespace cleave::plan {
namespace {

class Heuristic {
 public:
  Heuristic(PlannedModule& module, const PlannerOptions& options, MeshPtr mesh)
      : graph_(module.flat), options_(options), mesh_(std::move(mesh)), names_(module.names) {}

  void run() {
    const RegionId body = graph_.find_function(options_.entry)->body;
    size_t count = 0;
    graph_.walk(body, [&](NodeId) { ++count; });
    say(fmt::format("Phase 1: {} nodes, {} arguments, mesh {}", count,
                    graph_.region(body).args.size(), to_string(*mesh_)));
    say("Phase 2: seeds");
    size_t index = 0;
    std::vector<NodeId> nodes;
    graph_.walk(body, [&](NodeId id) { nodes.push_back(id); });
    for (NodeId id : nodes) {
      if (names_.nodes[id.index].empty()) continue;
      seed(id, index++);
    }
    say(fmt::format("  {} of {} strategic nodes seeded", seeded_, strategic_));
    say("Phase 3: propagation");
    const uint32_t visits = propagate(graph_);
    say(fmt::format("  fixed point after {} visits of ops", visits));
    warn_about_gaps();
    say("Phase 4: export");
    export_nodes();
  }

 private:
  void say(const std::string& line) const {
    if (options_.trace) options_.trace("[Solver] " + line);
  }

  void seed(NodeId id, size_t index) {
    const Node& node = graph_.node(id);
    const std::string kind = node.name().substr(node.name().find('.') + 1);
    if (node.operands.size() != 2 || node.results.size() != 1) return;
    const OpRule rules = op_rule(graph_, node);
    const OpShardingRule* rule = rules.to_run(node);
    if (!rule) return;
    const FactorChooser chooser(graph_, node, *rule);
    // The largest factor that only the first operand and the result have, and the same of the
    // second.
    FactorIndex rows = -1, columns = -1;
    bool contracts = false;
    for (size_t f = 0; f < rule->factors.size(); ++f) {
      const auto factor = static_cast<FactorIndex>(f);
      contracts = contracts || rule->factors[f].kind == FactorKind::Reduction;
      const bool first = has_factor(rule->operands[0], factor);
      const bool second = has_factor(rule->operands[1], factor);
      if (!has_factor(rule->results[0], factor) || !chooser.runs_apart(factor)) continue;
      FactorIndex& best = first ? rows : columns;
      if ((first || second) && (best < 0 || rule->factors[f].size > rule->factors[best].size))
        best = factor;
    }
    if (!contracts || graph_.operand_type(node, 1).rank() == 0) return;
    ++strategic_;
    say(fmt::format("Analyzing Node {}: {}", index, kind));
    for (size_t i = 0; i < 3; ++i) {
      const ValueId value = i < 2 ? node.operands[i] : node.results[0];
      if (const auto given = get_sharding(graph_, value); given && i == 2) {
        say(fmt::format("  {} is fixed as {}; not seeded", names_.values[value.index],
                        to_string(*given)));
        return;
      }
    }
    OpPrice price(graph_, node, mesh_, *options_.profile);
    FactorAxes axes(rule->factors.size());
    for (size_t a = 0; a < mesh_->axes.size(); ++a) {
      const AxisRef ref = whole_axis(*mesh_, static_cast<int>(a));
      if (ref.size == 1) continue;
      const double data = cost(node, *rule, price, axes, rows, ref, /*data=*/true);
      const double model = cost(node, *rule, price, axes, columns, ref, /*data=*/false);
      auto text = [](double seconds) {
        return seconds < 0 ? std::string("impossible") : fmt::format("{:.2f} us", seconds * 1e6);
      };
      const bool none = data < 0 && model < 0;
      const bool is_data = model < 0 || (data >= 0 && data <= model);
      say(fmt::format("  axis {}: data parallel {}, model parallel {} -> {}", mesh_->axes[a].name,
                      text(data), text(model),
                      none      ? "replicated"
                      : is_data ? "data parallel"
                                : "model parallel"));
      if (none) {
        say(fmt::format("  Warning: axis {} stays unused at {}", mesh_->axes[a].name,
                        names_.nodes[id.index]));
        continue;
      }
      axes[is_data ? rows : columns].push_back(ref);
    }
    ShardingSpec spec = layouts_for(graph_, node, mesh_, *rule, axes, nullptr).results[0];
    for (DimSpec& dim : spec.dims) dim.open = dim.axes.empty();
    say(fmt::format("  chosen: {} {}", names_.nodes[id.index], to_string(spec)));
    set_sharding(graph_, node.results[0], spec);
    ++seeded_;
  }

  // Negative: the factor cannot take the axis.
  double cost(const Node& node, const OpShardingRule& rule, OpPrice& price, FactorAxes axes,
              FactorIndex factor, const AxisRef& ref, bool data) const {
    if (factor < 0) return -1;
    axes[factor].push_back(ref);
    if (!splits_well(rule.factors[factor].size, total_size(axes[factor]))) return -1;
    const OpLayouts layouts = layouts_for(graph_, node, mesh_, rule, axes, nullptr);
    auto bytes = [&](const ShardingSpec& spec, ValueId value) {
      return static_cast<double>(num_elements(local_shape(spec, graph_.type(value).shape)) *
                                 byte_size(graph_.type(value).dtype));
    };
    const double compute = price.seconds(layouts.operands, layouts.results);
    const double moved = data ? collective_seconds(CollectiveKind::AllReduce,
                                                   bytes(layouts.operands[1], node.operands[1]),
                                                   *mesh_, {ref}, *options_.profile)
                              : collective_seconds(CollectiveKind::AllGather,
                                                   bytes(layouts.results[0], node.results[0]) *
                                                       static_cast<double>(ref.size),
                                                   *mesh_, {ref}, *options_.profile);
    return compute + moved;
  }

  void warn_about_gaps() const {
    for (uint32_t i = 0; i < names_.nodes.size(); ++i) {
      const Node& node = graph_.node({i});
      if (names_.nodes[i].empty() || node.regions.size() || node.def->opaque || node.def->rule)
        continue;
      if (!node.def->has(kTerminator) && !node.operands.empty())
        say(fmt::format("  Warning: {} has no rule; nothing spreads through it", names_.nodes[i]));
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
