#include "cleave/rules/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

bool has_axis(const ShardingSpec* spec, int dim, const AxisRef& axis) {
  if (!spec || dim < 0 || static_cast<size_t>(dim) >= spec->dims.size()) return false;
  return overlaps_any(axis, spec->dims[dim].axes);
}

std::string text_of(const ShardingSpec* spec) { return spec ? to_string(*spec) : "none"; }

// What a stage of the op priorities does beside the earlier ones.
constexpr const char* kStages[kNumOpStages] = {
    "ops that only pass elements through, whose operands have no other use",
    "ops that only pass elements through",
    "pass-through factors of all ops, and broadcasts backward",
    "all factors, but broadcasts forward",
    "everything",
};

std::string braces(const Axes& axes, const Mesh& mesh) {
  return "{" + to_string(AxisList(axes.begin(), axes.end()), mesh) + "}";
}

// Along a single device, and between meshes, nothing propagates.
bool on_one_mesh(const std::vector<const ShardingSpec*>& specs) {
  const Mesh* mesh = nullptr;
  for (const ShardingSpec* spec : specs) {
    if (!spec || spec->mesh->is_empty()) continue;
    if (!mesh) mesh = spec->mesh.get();
    if (spec->mesh->is_maximal() || !mesh->same_devices(*spec->mesh)) return false;
  }
  return true;
}

// The first two tensors that are sharded in different ways along the factor: neither has a prefix
// of what the other has.
std::optional<std::pair<int, int>> find_conflict(const Projection& projection, int factor) {
  int widest = -1;
  for (int t = 0; t < projection.index->num_tensors; ++t) {
    const FactorSharding* sharding = projection.find(t, factor);
    if (!sharding || sharding->axes.empty()) continue;
    if (widest < 0) {
      widest = t;
      continue;
    }
    const Axes& axes = projection.find(widest, factor)->axes;
    if (prefix_status(sharding->axes, axes) != Prefix::No) continue;
    if (prefix_status(axes, sharding->axes) == Prefix::No) return std::pair(widest, t);
    widest = t;
  }
  return std::nullopt;
}

}  // namespace

Explainer::Explainer(const PropagationEngine& engine, std::vector<std::string> names)
    : engine_(engine), names_(std::move(names)), changes_of_(engine.tables().slots.size()) {
  const std::vector<ShardingChange>& changes = engine.changes();
  for (size_t i = 0; i < changes.size(); ++i)
    changes_of_[changes[i].slot].push_back(static_cast<int32_t>(i));
}

int32_t Explainer::spec_before(int32_t slot, int32_t change) const {
  if (slot < 0) return SpecTable::kNone;
  const std::vector<int32_t>& own = changes_of_[slot];
  auto it = std::lower_bound(own.begin(), own.end(), change);
  return it == own.begin() ? engine_.tables().initial[slot]
                           : engine_.changes()[*std::prev(it)].after;
}

void Explainer::find_source(CauseLink& link) const {
  const ShardingChange& change = engine_.changes()[link.change];
  const SpecTable& specs = engine_.specs();
  if (change.cause == ChangeCause::FunctionResult || change.cause == ChangeCause::Group) {
    link.source = change.other_slot;
    link.source_dim = link.dim;
    return;
  }
  if (change.op < 0) return;
  const PropagationTables& tables = engine_.tables();
  const PropagationTables::Op& op = tables.ops[change.op];
  const RuleIndex& index = *tables.rules[op.rule];
  const std::span<const int32_t> tensors = tables.tensors_of(op);
  for (int t = 0; t < index.num_tensors; ++t) {
    if (tensors[t] != link.slot) continue;
    for (const RuleIndex::Entry& entry : index.of_tensor(t)) {
      if (entry.dim != link.dim) continue;
      for (int other = 0; other < index.num_tensors; ++other) {
        const int found = index.find(other, entry.factor);
        if (found < 0 || tensors[other] == link.slot) continue;
        const int dim = index.entries[found].dim;
        const ShardingSpec* spec = specs.find(spec_before(tensors[other], link.change));
        if (!has_axis(spec, dim, link.axis)) continue;
        link.source = tensors[other];
        link.source_dim = dim;
        link.factor = entry.factor;
        return;
      }
    }
  }
}

CauseLink Explainer::link(int32_t slot, int dim, const AxisRef& axis, int32_t before_change) const {
  CauseLink link{slot, dim, axis};
  const std::vector<int32_t>& own = changes_of_[slot];
  const SpecTable& specs = engine_.specs();
  for (auto it = std::lower_bound(own.begin(), own.end(), before_change); it != own.begin();) {
    const ShardingChange& change = engine_.changes()[*--it];
    if (has_axis(specs.find(change.after), dim, axis) &&
        !has_axis(specs.find(change.before), dim, axis)) {
      link.change = *it;
      find_source(link);
      break;
    }
  }
  return link;
}

std::vector<CauseLink> Explainer::chain(int32_t slot, int dim, const AxisRef& axis) const {
  std::vector<CauseLink> links;
  auto time = static_cast<int32_t>(engine_.changes().size());
  while (slot >= 0) {
    links.push_back(link(slot, dim, axis, time));
    const CauseLink& last = links.back();
    if (last.change < 0 || last.source < 0) break;
    slot = last.source;
    dim = last.source_dim;
    time = last.change;
  }
  return links;
}

std::string Explainer::name_of(int32_t slot) const {
  const PropagationTables::Slot& at = engine_.tables().slots[slot];
  const Graph& graph = engine_.graph();
  if (!at.value.valid())
    return fmt::format("result {} of @{}", at.index, graph.functions[at.function].name);
  auto known = [&](ValueId value) {
    return value.index < names_.size() ? names_[value.index] : std::string();
  };
  std::string name = known(at.value);
  if (!name.empty()) return name;
  const NodeId producer = graph.value(at.value).producer;
  if (!producer.valid()) return "an argument";
  const Node& node = graph.node(producer);
  if (node.name().ends_with("data_flow_edge") && !known(node.operands[0]).empty())
    return known(node.operands[0]);
  return "a copy of " + node.name();
}

std::string Explainer::op_text(int32_t op) const {
  const PropagationTables& tables = engine_.tables();
  const Node& node = engine_.graph().node(tables.ops[op].node);
  std::string text = is<op::DataFlowEdge>(node) ? "the data-flow edge" : node.name();
  const std::span<const int32_t> tensors = tables.tensors_of(tables.ops[op]);
  for (size_t t = 0; t < tensors.size(); ++t) {
    text += t == 0 ? " (" : t == tables.ops[op].num_operands ? ") -> " : ", ";
    text += tensors[t] < 0 ? "_" : name_of(tensors[t]);
  }
  return text;
}

std::string Explainer::annotation(const CauseLink& last) const {
  const SpecTable& specs = engine_.specs();
  const int32_t initial = engine_.tables().initial[last.slot];
  std::string text =
      fmt::format("{} was annotated {}", name_of(last.slot), text_of(specs.find(initial)));
  if (last.change >= 0 && engine_.changes()[last.change].cause == ChangeCause::Priority)
    text +=
        fmt::format(", which takes effect at priority {}", engine_.changes()[last.change].priority);
  return text;
}

std::string Explainer::origin(int32_t slot, int dim, const AxisRef& axis) const {
  return annotation(chain(slot, dim, axis).back());
}

std::string Explainer::explain(ValueId value) const {
  const int32_t slot = value.index < engine_.tables().slot_of_value.size()
                           ? engine_.tables().slot_of_value[value.index]
                           : -1;
  const std::string name = value.index < names_.size() ? names_[value.index] : "the value";
  const ShardingSpec* spec = slot < 0 ? nullptr : engine_.specs().find(engine_.spec_of(slot));
  if (!spec) return fmt::format("{} has no sharding: nothing reached it\n", name);
  std::string text = fmt::format("{}: {}\n", name, to_string(*spec));
  for (size_t d = 0; d < spec->dims.size(); ++d)
    for (const AxisRef& axis : spec->dims[d].axes) {
      text += fmt::format("  dimension {}, {}\n", d, to_string(axis, *spec->mesh));
      for (const CauseLink& link : chain(slot, static_cast<int>(d), axis)) {
        if (link.source < 0) {
          text += fmt::format("    {}\n", annotation(link));
          continue;
        }
        const ShardingChange& change = engine_.changes()[link.change];
        if (change.cause == ChangeCause::FunctionResult) {
          text += fmt::format("    from {} dimension {}, by the return\n", name_of(link.source),
                              link.source_dim);
        } else if (change.cause == ChangeCause::Group) {
          text += fmt::format("    from {} dimension {}, a member of its sharding group\n",
                              name_of(link.source), link.source_dim);
        } else {
          text +=
              fmt::format("    from {} dimension {} through {}, factor {}\n", name_of(link.source),
                          link.source_dim, op_text(change.op), factor_symbol(link.factor));
        }
      }
    }
  return text;
}

std::string Explainer::trace() const {
  std::string text = "given\n";
  int stage = -1, priority = -1;
  const std::vector<ShardingChange>& changes = engine_.changes();
  const SpecTable& specs = engine_.specs();
  const PropagationTables& tables = engine_.tables();
  for (size_t slot = 0; slot < tables.slots.size(); ++slot)
    if (const ShardingSpec* spec = specs.find(tables.initial[slot]))
      text += fmt::format("  {}  {}\n", name_of(static_cast<int32_t>(slot)), to_string(*spec));
  for (size_t i = 0; i < changes.size(); ++i) {
    const ShardingChange& change = changes[i];
    if (change.stage != stage || change.priority != priority) {
      stage = change.stage;
      priority = change.priority;
      text += fmt::format("priority {}, stage {}: {}\n", priority, stage, kStages[stage]);
    }
    text += fmt::format("  visit {}: {}  {} => {}", change.visit, name_of(change.slot),
                        text_of(specs.find(change.before)), text_of(specs.find(change.after)));
    if (change.cause == ChangeCause::Priority) {
      text += "  the user's priorities\n";
      continue;
    }
    if (change.op >= 0) text += "  through " + op_text(change.op);
    text += '\n';
    const ShardingSpec* after = specs.find(change.after);
    for (size_t d = 0; after && d < after->dims.size(); ++d)
      for (const AxisRef& axis : after->dims[d].axes) {
        if (has_axis(specs.find(change.before), static_cast<int>(d), axis)) continue;
        CauseLink link{change.slot, static_cast<int>(d), axis, static_cast<int32_t>(i)};
        find_source(link);
        if (link.source < 0) continue;
        text += fmt::format("    dimension {} takes {} from {} dimension {}\n", d,
                            to_string(axis, *after->mesh), name_of(link.source), link.source_dim);
      }
  }
  size_t ops = 0;
  for (const PropagationTables::Op& op : tables.ops) ops += !op.erased;
  std::vector<std::string> open;  // numbers have no dimension to shard
  auto is_number = [&](size_t slot) {
    const PropagationTables::Slot& at = tables.slots[slot];
    const Graph& graph = engine_.graph();
    if (!at.value.valid() && at.function < 0) return true;  // unused: the edge's slot serves it
    return (at.value.valid() ? graph.type(at.value)
                             : graph.functions[at.function].result_types[at.index])
               .rank() == 0;
  };
  for (size_t slot = 0; slot < tables.slots.size(); ++slot)
    if (!is_number(slot) && !specs.find(engine_.spec_of(static_cast<int32_t>(slot))))
      open.push_back(name_of(static_cast<int32_t>(slot)));
  text += fmt::format("settled after {} visits of {} ops and {} changes; ", engine_.visits(), ops,
                      changes.size());
  text += open.empty() ? "every tensor has a sharding\n"
                       : fmt::format("nothing reached {}\n", fmt::join(open, ", "));
  return text;
}

std::vector<std::string> Explainer::warnings() const {
  std::vector<std::string> found;
  warn_of_missing_rules(found);
  const PropagationTables& tables = engine_.tables();
  Projection projection;
  for (size_t o = 0; o < tables.ops.size(); ++o) {
    const PropagationTables::Op& op = tables.ops[o];
    if (op.erased || op.rule < 0 || op.manual_edge >= 0 || op.op_class == PropagationClass::Barrier)
      continue;
    warn_of_conflicts(static_cast<int32_t>(o), projection, found);
  }
  return found;
}

void Explainer::warn_of_missing_rules(std::vector<std::string>& found) const {
  const PropagationTables& tables = engine_.tables();
  auto is_sharded = [&](ValueId value) {
    const int32_t slot = tables.slot_of_value[value.index];
    const ShardingSpec* spec = slot < 0 ? nullptr : engine_.specs().find(engine_.spec_of(slot));
    return spec && std::any_of(spec->dims.begin(), spec->dims.end(),
                               [](const DimSpec& dim) { return !dim.axes.empty(); });
  };
  for (NodeId id : tables.without_rule) {
    const Node& node = engine_.graph().node(id);
    if (!std::any_of(node.operands.begin(), node.operands.end(), is_sharded) &&
        !std::any_of(node.results.begin(), node.results.end(), is_sharded))
      continue;
    const std::string result =
        node.results[0].index < names_.size() ? names_[node.results[0].index] : "";
    found.push_back(fmt::format(
        "{} {} has no sharding rule: shardings do not pass through it; give it one with {}, or "
        "with register_rule",
        result, node.name(), kShardingRuleAttr));
  }
}

void Explainer::warn_of_conflicts(int32_t op_index, Projection& projection,
                                  std::vector<std::string>& found) const {
  const PropagationTables& tables = engine_.tables();
  const PropagationTables::Op& op = tables.ops[op_index];
  const std::span<const int32_t> tensors = tables.tensors_of(op);
  std::vector<const ShardingSpec*> specs;
  for (int32_t slot : tensors) specs.push_back(engine_.specs().find(engine_.spec_of(slot)));
  if (!on_one_mesh(specs)) {
    found.push_back(fmt::format(
        "{}: operands and results are on different meshes or on a single device: shardings do "
        "not pass through it",
        op_text(op_index)));
    return;
  }
  const RuleIndex& index = *tables.rules[op.rule];
  project(index, specs, projection);
  for (int factor = 0; factor < index.num_factors; ++factor) {
    const auto conflict = find_conflict(projection, factor);
    if (!conflict) continue;
    auto side = [&](int tensor) {
      const Axes& axes = projection.find(tensor, factor)->axes;
      const int dim = index.entries[index.find(tensor, factor)].dim;
      return fmt::format("{} {} has {} ({})", tensor < index.num_operands ? "operand" : "result",
                         name_of(tensors[tensor]), braces(axes, *specs[tensor]->mesh),
                         origin(tensors[tensor], dim, axes[0]));
    };
    found.push_back(fmt::format("{}: conflict along factor {}: {}, but {}", op_text(op_index),
                                factor_symbol(factor), side(conflict->first),
                                side(conflict->second)));
  }
}

}  // namespace cleave
