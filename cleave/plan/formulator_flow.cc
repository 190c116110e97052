#include <fmt/ranges.h>

#include <algorithm>

#include "cleave/analyze/kernels.h"
#include "cleave/core/error.h"
#include "cleave/core/placement.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/plan/annotations.h"
#include "cleave/plan/formulator.h"
#include "cleave/spmd/manual_border.h"
#include "cleave/spmd/partition.h"

namespace cleave::plan {

void Formulator::number(RegionId region, double times, int branch) {
  for (NodeId id : graph_.region(region).nodes) {
    const Node& node = graph_.node(id);
    position_[id.index] = static_cast<int>(out_.schedule.size()) + 1;
    times_[id.index] = times;
    branch_[id.index] = branch;
    out_.schedule.push_back(id);
    if (!is_planned_inside(node)) continue;
    const std::optional<LoopRegions> loop = loop_of(node);
    if (!loop) {
      number_branches(node, id, times, branch);
      continue;
    }
    const std::optional<int64_t> known = trip_count(graph_, node);
    const auto trips = static_cast<double>(known.value_or(options_.trips));
    if (!known)
      out_.notes.push_back(
          fmt::format("{}: the number of trips is not known; counted as {} (give it with --trips)",
                      names_.nodes[id.index], trips == 1 ? "one" : std::to_string(options_.trips)));
    number(loop->condition, times * (trips + 1), branch);
    number(loop->body, times * trips, branch);
  }
}

void Formulator::number_branches(const Node& node, NodeId id, double times, int branch) {
  const auto first = static_cast<int>(out_.group_of_.size());
  const auto group = static_cast<int>(out_.groups.size());
  for (size_t r = 0; r < node.regions.size(); ++r)
    out_.group_of_.emplace_back(group, static_cast<int>(r));
  out_.groups.push_back({id, branch, first, std::vector<double>(node.regions.size(), 1.0)});
  for (size_t r = 0; r < node.regions.size(); ++r)
    number(node.regions[r], times, first + static_cast<int>(r));
}

void Formulator::new_taker(NodeId id, const std::vector<Want>& wants) {
  const Node& node = graph_.node(id);
  const int op = new_op(id, 0, nullptr, {}, operand_versions(id));
  out_.ops[op].wants = wants;
  for (size_t i = 0; i < wants.size(); ++i)
    if (wants[i].decision >= 0 && is_ranked(node.operands[i]))
      demand(out_.ops[op].operands[i], wants[i].decision, wants[i].list, id, op,
             static_cast<int>(i));
}

// An op that says itself how its operands and results lie.
void Formulator::visit_fixed(NodeId id, std::vector<ShardingSpec> operands,
                             std::vector<ShardingSpec> results) {
  const Node& node = graph_.node(id);
  if (operands.size() != node.operands.size() || results.size() != node.results.size())
    throw_user("{}: {} shardings for {} operands, {} for {} results", names_.nodes[id.index],
               operands.size(), node.operands.size(), results.size(), node.results.size());
  std::vector<Want> wants;
  for (const ShardingSpec& spec : operands) wants.push_back({0, intern({layouts_.intern(spec)})});
  new_taker(id, wants);
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId result = node.results[i];
    version_of_[result.index] =
        new_version(result, 0, intern({layouts_.intern(results[i])}), position(id));
    settle(result);
  }
}

void Formulator::visit_manual(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<ShardingSpec> in = get_shardings(node, "in_shardings");
  std::vector<ShardingSpec> out = get_shardings(node, "out_shardings");
  for (std::vector<ShardingSpec>* specs : {&in, &out})
    for (size_t i = 0; i < specs->size(); ++i) {
      ShardingSpec& spec = (*specs)[i];
      if (spec.mesh->axes != layouts_.mesh()->axes)
        throw_user("{}: it is written for the mesh {}, and cannot be planned on {}",
                   names_.nodes[id.index], to_string(*spec.mesh), to_string(*layouts_.mesh()));
      const std::vector<ValueId>& values = specs == &in ? node.operands : node.results;
      if (i < values.size()) spec = manual_border(node, spec, graph_.type(values[i]).shape);
    }
  const size_t op = out_.ops.size();
  visit_fixed(id, std::move(in), std::move(out));
  out_.ops[op].fixed =
      manual_cost(graph_, id, layouts_.mesh(), layouts_.profile(),
                  reshard_options(*layouts_.mesh(), layouts_.choice().parts), options_.trips);
}

void Formulator::visit_constraint(NodeId id, const ShardingSpec& spec) {
  const ValueId result = graph_.node(id).results[0];
  const std::vector<SpecId> specs = matching(spec, graph_.type(result));
  if (specs.size() == 1) {
    const ShardingSpec only = layouts_.spec(specs[0]);
    return visit_fixed(id, {only}, {only});
  }
  const int decision = new_decision(static_cast<int>(specs.size()), names_.values[result.index]);
  const ListId list = intern(specs);
  new_taker(id, {{decision, list}});
  version_of_[result.index] = new_version(result, decision, list, position(id));
  settle(result);
}

std::vector<SpecId> Formulator::matching(const ShardingSpec& spec, const Type& type) const {
  std::vector<SpecId> list;
  for (SpecId id : layouts_.candidates(type.shape))
    if (matches(layouts_.spec(id), spec)) list.push_back(id);
  if (list.empty()) list.push_back(layouts_.intern(spec));  // uneven, or by parts of axes
  return list;
}

bool Formulator::is_ignored(const std::string& name) const {
  const std::vector<std::string>& list = options_.ignored;
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Values pass through as they are.
void Formulator::visit_barrier(NodeId id) {
  const Node& node = graph_.node(id);
  new_taker(id, std::vector<Want>(node.operands.size()));
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Version from = out_.versions[version_of_[node.operands[i].index]];
    version_of_[node.results[i].index] =
        new_version(node.results[i], from.decision, from.list, position(id));
    settle(node.results[i]);
  }
}

void Formulator::visit_while(NodeId id) {
  const Node& node = graph_.node(id);
  const LoopRegions loop = *loop_of(node);
  for (RegionId seen : {loop.condition, loop.body})  // a carried value lies alike in all of them
    for (size_t i = 0; i < node.results.size(); ++i)
      if (captured_[graph_.region(seen).args[i].index]) captured_[node.results[i].index] = true;
  std::vector<Want> carry;
  for (ValueId result : node.results) {
    Want want{
        0, intern({is_ranked(result) ? layouts_.replicated(graph_.type(result).rank()) : kNoSpec})};
    if (is_ranked(result) && graph_.type(result).rank() > 0) {
      std::vector<std::string> pins;
      const std::vector<SpecId> specs = candidates(result, pins);
      want = {new_decision(static_cast<int>(specs.size()), names_.values[result.index]),
              intern(specs)};
      out_.decisions[want.decision].pins = std::move(pins);
    }
    carry.push_back(want);
  }
  new_taker(id, carry);
  for (size_t i = 0; i < node.results.size(); ++i)
    version_of_[node.results[i].index] =
        new_version(node.results[i], carry[i].decision, carry[i].list, position(id));
  for (RegionId inner : {loop.condition, loop.body}) {
    const std::vector<ValueId>& args = graph_.region(inner).args;
    for (size_t i = 0; i < args.size(); ++i) {
      version_of_[args[i].index] =
          new_version(args[i], carry[i].decision, carry[i].list, position(id));
      out_.versions[version_of_[args[i].index]].takes_memory = false;
      share_copies(version_of_[args[i].index]);
    }
    region(inner);
    const std::vector<Want> whether{{0, intern({layouts_.replicated(0)})}};
    new_taker(graph_.terminator(inner), inner == loop.body ? carry : whether);
  }
  for (ValueId result : node.results) share_copies(version_of_[result.index]);
}

void Formulator::visit_branches(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<Want> whole;
  for (ValueId operand : node.operands)
    whole.push_back({0, intern({layouts_.replicated(graph_.type(operand).rank())})});
  new_taker(id, whole);
  std::vector<Want> results;
  for (ValueId result : node.results) {
    Want want{0, intern({kNoSpec})};
    if (is_ranked(result)) {
      std::vector<std::string> pins;
      const std::vector<SpecId> specs = candidates(result, pins);
      want = {new_decision(static_cast<int>(specs.size()), names_.values[result.index]),
              intern(specs)};
      out_.decisions[want.decision].pins = std::move(pins);
    }
    results.push_back(want);
  }
  for (RegionId branch : node.regions) {
    region(branch);
    new_taker(graph_.terminator(branch), results);
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    version_of_[node.results[i].index] =
        new_version(node.results[i], results[i].decision, results[i].list, position(id));
    share_copies(version_of_[node.results[i].index]);
  }
}

void Formulator::finish_function(NodeId id) {
  const Function& function = *graph_.find_function(options_.entry);
  const Node& node = graph_.node(id);
  const size_t num_args = out_.argument_versions.size();
  // A donated argument and the result that takes its place lie alike, so that the next step can
  // begin as this one did; so do an argument and the result that the caller says is the next one.
  std::vector<int> taken_from(node.operands.size(), -1);
  donated_.assign(num_args, false);
  for (size_t i = 0; i < num_args && i < function.arg_attrs.size(); ++i) {
    const AttrDict& attrs = function.arg_attrs[i];
    const int64_t output = attrs.get_int("tf.aliasing_output", -1);
    if (output >= 0 && output < static_cast<int64_t>(taken_from.size()))
      taken_from[output] = static_cast<int>(i);
    donated_[i] = output >= 0 || attrs.has("jax.buffer_donor");
  }
  for (size_t i = 0; i < num_args && i < function.arg_attrs.size(); ++i) {
    const int64_t next = function.arg_attrs[i].get_int(kNextAttr, -1);
    if (next >= 0 && next < static_cast<int64_t>(taken_from.size()))
      taken_from[next] = static_cast<int>(i);
  }
  std::vector<Want> wants;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    Want want;
    const ShardingSpec* fixed =
        i < function.result_attrs.size() ? sharding_in(function.result_attrs[i]) : nullptr;
    if (fixed && fixed->mesh->axes == layouts_.mesh()->axes && !is_ignored(result_name(i))) {
      const Type& type = graph_.operand_type(node, i);
      const std::vector<SpecId> specs = at_border(result_name(i), type, matching(*fixed, type));
      const int decision =
          specs.size() == 1 ? 0 : new_decision(static_cast<int>(specs.size()), result_name(i));
      want = {decision, intern(specs)};
    } else if (taken_from[i] >= 0) {
      const Version& arg = out_.versions[out_.argument_versions[taken_from[i]]];
      if (graph_.type(arg.value) == graph_.operand_type(node, i)) want = {arg.decision, arg.list};
    } else if (options_.borders != Borders::Any && is_ranked(node.operands[i])) {
      const Type& type = graph_.operand_type(node, i);
      const std::vector<SpecId>& all = layouts_.candidates(type.shape);
      // JAX has results without elements whole on every device, whatever is asked for.
      const std::vector<SpecId> taken = num_elements(type.shape) == 0
                                            ? std::vector{layouts_.replicated(type.rank())}
                                            : at_border(result_name(i), type, all);
      if (taken.size() < all.size())
        want = {new_decision(static_cast<int>(taken.size()), result_name(i)), intern(taken)};
    }
    wants.push_back(want);
  }
  new_taker(id, wants);
  out_.ops.back().fixed.compute_seconds =
      analyze::step_seconds(graph_, function.body, layouts_.profile());
  for (int version : out_.ops.back().operands) out_.versions[version].last = out_.end();
  for (size_t i = 0; i < num_args; ++i)
    if (!donated_[i]) out_.versions[out_.argument_versions[i]].last = out_.end();
}

std::optional<ShardingSpec> Formulator::annotation(ValueId value) const {
  const Value& v = graph_.value(value);
  std::optional<ShardingSpec> spec;
  const Function& function = *graph_.find_function(options_.entry);
  if (v.producer.valid()) {
    const std::vector<ShardingSpec> specs = get_shardings(graph_.node(v.producer), kShardingAttr);
    if (v.index < specs.size()) spec = specs[v.index];
  } else if (v.region == function.body && v.index < function.arg_attrs.size()) {
    if (const ShardingSpec* given = sharding_in(function.arg_attrs[v.index])) spec = *given;
  }
  if (!spec || !spec->mesh || spec->mesh->axes != layouts_.mesh()->axes) return std::nullopt;
  if (is_ignored(names_.values[value.index])) return std::nullopt;
  return spec;
}

std::vector<Pin> Formulator::pins_on(ValueId value) const {
  const std::string& name = names_.values[value.index];
  std::vector<Pin> pins;
  if (const auto given = annotation(value))
    pins.push_back({name, *given, fmt::format("annotation {} of {}", to_string(*given), name)});
  for (const Pin& pin : options_.pins)
    if (applies(pin, name, graph_.type(value).rank())) pins.push_back(pin);
  return pins;
}

std::vector<SpecId> Formulator::allowed(ValueId value, const std::vector<SpecId>& candidates,
                                        std::vector<std::string>& used) const {
  const std::string& name = names_.values[value.index];
  const Type& type = graph_.type(value);
  const std::vector<Pin> pins = pins_on(value);
  auto those_of = [&](const std::vector<SpecId>& list, const Pin& pin) {
    const ShardingSpec spec = spec_for(pin, layouts_.mesh(), type.rank());
    std::vector<SpecId> kept;
    for (SpecId id : list)
      if (matches(layouts_.spec(id), spec)) kept.push_back(id);
    // A layout that nobody would have tried: uneven, or by parts of axes.
    if (kept.empty() && &list == &candidates && pin.spec.mesh) {
      verify(pin.spec, type.shape);
      kept.push_back(layouts_.intern(pin.spec));
    }
    return kept;
  };
  std::vector<SpecId> list = candidates;
  for (size_t p = 0; p < pins.size(); ++p) {
    const Pin& pin = pins[p];
    if (pin.spec.mesh && pin.spec.rank() != type.rank())
      throw_user("pin {}: {} has {} dimensions, the spec has {}", pin.text, name, type.rank(),
                 pin.spec.rank());
    std::vector<SpecId> kept = those_of(p == 0 ? candidates : list, pin);
    if (!kept.empty()) {
      list = std::move(kept);
      used.push_back(pin.text);
      continue;
    }
    // The first earlier one that leaves it nothing; or all of them together.
    for (size_t q = 0; q < p; ++q)
      if (those_of(those_of(candidates, pins[q]), pin).empty())
        throw_user("{}: the pins {} and {} cannot both hold; drop one of them", name, pins[q].text,
                   pin.text);
    throw_user("{}: the pins {} and {} cannot all hold; drop one of them", name,
               fmt::join(used, ", "), pin.text);
  }
  return list;
}

std::vector<SpecId> Formulator::candidates(ValueId value, std::vector<std::string>& used) const {
  const Type& type = graph_.type(value);
  if (captured_[value.index]) return {layouts_.replicated(type.rank())};
  return allowed(value, layouts_.candidates(type.shape), used);
}

Borders borders_from_name(std::string_view name) {
  if (name == "any") return Borders::Any;
  if (name == "even") return Borders::Even;
  if (name == "placements") return Borders::Placements;
  throw_user("borders '{}': they are any, even or placements", name);
}

namespace {

bool divides(const ShardingSpec& spec, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] % total_size(spec.dims[d].axes) != 0) return false;
  return true;
}

}  // namespace

std::vector<SpecId> Formulator::at_border(std::string_view name, const Type& type,
                                          std::vector<SpecId> specs) const {
  if (options_.borders == Borders::Any) return specs;
  const SpecId any = specs.front();
  const bool even = options_.borders == Borders::Even;
  std::erase_if(specs, [&](SpecId id) {
    const ShardingSpec& spec = layouts_.spec(id);
    return even ? !divides(spec, type.shape) : !lies_as_placements(spec, type.shape);
  });
  if (specs.empty())
    throw_user("{}: {} {} {}, and arguments and results are to lie {}", name,
               to_string(layouts_.spec(any)),
               even ? "does not divide" : "is no list of placements for", to_string(type),
               even ? "in even shards" : "as placements say");
  return specs;
}

void Formulator::settle(ValueId value) {
  const int raw = version_of_[value.index];
  if (!is_ranked(value)) return;
  const std::vector<SpecId>& list = out_.list(out_.versions[raw].list);
  const bool pending =
      std::any_of(list.begin(), list.end(), [&](SpecId id) { return layouts_.is_partial(id); });
  bool flows = false;
  for (const Use& use : uses_.uses(value)) {
    const Node& user = graph_.node(use.node);
    flows = flows || user.def->has(kTerminator) || user.def->has(kDataFlow);
  }
  const std::string& name = names_.values[value.index];
  if (captured_[value.index]) return share_copies(version_of_[value.index]);
  if (!pins_on(value).empty() || (pending && (use_count_[value.index] > 1 || flows))) {
    std::vector<std::string> pins;
    const std::vector<SpecId> specs =
        allowed(value, layouts_.candidates(graph_.type(value).shape), pins);
    const int decision = new_decision(static_cast<int>(specs.size()), name);
    out_.decisions[decision].pins = std::move(pins);
    const int position = out_.versions[raw].first;
    const int settled = new_version(value, decision, intern(specs), position);
    out_.versions[settled].source = raw;
    out_.versions[raw].takes_memory = false;
    demand(raw, decision, intern(specs), graph_.value(value).producer, -1, 0, settled);
    version_of_[value.index] = settled;
  }
  share_copies(version_of_[value.index]);
}

namespace {

// Uses that are further apart than this do not share a copy: it would be held in between.
constexpr int kCopySpan = 150;

}  // namespace

// Contracts two tensors: a matmul or a convolution, for which an operand may be worth a copy.
bool Formulator::contracts(NodeId id) {
  const int number = number_[id.index];
  if (number >= 0 && contracts_[number] != kUnknown) return contracts_[number] == kYes;
  const Node& node = graph_.node(id);
  bool found =
      node.operands.size() == 2 && node.def->rule && graph_.operand_type(node, 1).rank() > 0;
  if (found) {
    const auto& rule = rules_.of(id).execution;
    found = rule && std::any_of(rule->factors.begin(), rule->factors.end(),
                                [](const Factor& f) { return f.kind == FactorKind::Reduction; });
  }
  if (number >= 0) contracts_[number] = found ? kYes : kNo;
  return found;
}

void Formulator::share_copies(int version) {
  const Version v = out_.versions[version];
  if (!is_ranked(v.value) || graph_.type(v.value).rank() == 0 || v.decision == 0) return;
  if (use_count_[v.value.index] < 2 && !graph_.value(v.value).producer.valid()) return;
  const Value& value = graph_.value(v.value);
  const RegionId home = value.producer.valid() ? graph_.node(value.producer).parent : value.region;
  std::vector<Use> matmuls;
  std::map<uint32_t, std::vector<Use>> loops;  // uses inside a loop, by the loop
  for (const Use& use : uses_.uses(v.value)) {
    if (position_[use.node.index] < 0) continue;
    NodeId at = use.node;
    while (graph_.node(at).parent != home) at = graph_.region(graph_.node(at).parent).owner;
    if (at != use.node && flow_of(graph_.node(at)) == Flow::Loop)
      loops[at.index].push_back(use);
    else if (at == use.node && contracts(use.node))
      matmuls.push_back(use);
  }
  for (const auto& [loop, users] : loops) share_copy(version, {loop}, users);
  std::sort(matmuls.begin(), matmuls.end(), [&](const Use& a, const Use& b) {
    return std::pair(position(a.node), a.operand) < std::pair(position(b.node), b.operand);
  });
  for (size_t begin = 0; begin < matmuls.size();) {
    size_t end = begin + 1;
    while (end < matmuls.size() &&
           position(matmuls[end].node) - position(matmuls[end - 1].node) <= kCopySpan)
      ++end;
    if (end - begin > 1)
      share_copy(version, matmuls[begin].node, {matmuls.begin() + begin, matmuls.begin() + end});
    begin = end;
  }
}

void Formulator::share_copy(int source, NodeId before, const std::vector<Use>& users) {
  const ValueId value = out_.versions[source].value;
  const std::vector<SpecId>& candidates = layouts_.candidates(graph_.type(value).shape);
  std::vector<SpecId> list = out_.list(out_.versions[source].list);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  const size_t num_aliases = list.size();
  list.insert(list.end(), candidates.begin(), candidates.end());
  const int decision =
      new_decision(static_cast<int>(list.size()), names_.values[value.index] + "'");
  const ListId id = intern(list);
  const int copy = new_version(value, decision, id, position(before));
  Version& version = out_.versions[copy];
  version.source = source;
  version.before = before;
  version.alias.assign(list.size(), false);
  std::fill(version.alias.begin(), version.alias.begin() + static_cast<ptrdiff_t>(num_aliases),
            true);
  out_.versions[source].last = std::max(out_.versions[source].last, position(before));
  for (const Use& use : users) {
    shared_[{use.node.index, use.operand}] = copy;
    // The source stays while it may be what the users read.
    out_.versions[source].last = std::max(out_.versions[source].last, position(use.node));
  }
  demand(source, decision, id, before, -1, 0, copy);
}

}  // namespace cleave::plan
