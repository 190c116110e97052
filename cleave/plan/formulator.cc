#include "cleave/plan/formulator.h"

#include <algorithm>
#include <functional>

#include "cleave/analyze/kernels.h"
#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"

namespace cleave::plan {

Formulator::Formulator(Formulation& out, const Graph& graph, const Names& names, Layouts& layouts,
                       StrategyBook& book, const FormulationOptions& options)
    : out_(out),
      graph_(graph),
      names_(names),
      layouts_(layouts),
      book_(book),
      options_(options),
      uses_(graph),
      rules_(graph),
      position_(graph.num_nodes(), -1),
      times_(graph.num_nodes(), 1),
      branch_(graph.num_nodes(), -1),
      use_count_(graph.num_values()),
      version_of_(graph.num_values(), -1),
      trivial_(graph.num_values()) {}

void Formulator::run() {
  const Function& function = *graph_.find_function(options_.entry);
  out_.definitions.assign(graph_.num_values(), -1);
  number(function.body, 1, -1);
  count_uses();
  find_captured();
  check_pins();
  prepare_strategies();
  out_.ops.reserve(out_.schedule.size());
  out_.versions.reserve(out_.schedule.size() + out_.schedule.size() / 4);
  out_.demands.reserve(2 * out_.schedule.size());
  new_decision(1, "fixed");
  arguments();
  region(function.body);
  finish_function(graph_.terminator(function.body));
  out_.is_marked = analyze::is_marked(graph_, function.body);
  if (out_.is_marked) hold_as_executed();
  compact();
}

bool Formulator::is_about_something(const Pin& pin) const {
  for (uint32_t v = 0; v < names_.values.size(); ++v)
    if (is_ranked({v}) && applies(pin, names_.values[v], graph_.type({v}).rank())) return true;
  return false;
}

void Formulator::check_pins() const {
  std::string example = "arg0";
  for (const std::string& name : names_.values)
    if (!name.empty()) {
      example = name;
      break;
    }
  for (const Pin& pin : options_.pins)
    if (!is_about_something(pin))
      throw_user(
          "pin {}: no value {}is called so; names are those of the plan file, such as {}, and * "
          "stands for any text",
          pin.text,
          pin.spec.mesh ? fmt::format("of {} dimensions ", pin.spec.rank()) : std::string(),
          example);
}

void Formulator::count_uses() {
  for (uint32_t v = 0; v < graph_.num_values(); ++v)
    for (const Use& use : uses_.uses({v}))
      if (position_[use.node.index] >= 0) ++use_count_[v];
}

void Formulator::find_captured() {
  captured_.assign(graph_.num_values(), false);
  std::vector<bool> is_planned(graph_.num_regions());
  for (NodeId id : out_.schedule) is_planned[graph_.node(id).parent.index] = true;
  for (NodeId id : out_.schedule) {
    const Node& node = graph_.node(id);
    if (is_planned_inside(node)) continue;
    for (RegionId region : node.regions)
      graph_.walk(region, [&](NodeId inner) {
        for (ValueId operand : graph_.node(inner).operands) {
          const Value& value = graph_.value(operand);
          const RegionId home =
              value.producer.valid() ? graph_.node(value.producer).parent : value.region;
          if (is_planned[home.index]) captured_[operand.index] = true;
        }
      });
  }
}

// Those that an op says of itself, for this mesh.
std::vector<ShardingSpec> Formulator::own_shardings(const Node& node) const {
  const std::string_view attr = own_sharding_attr(node);
  if (attr.empty()) return {};
  std::vector<ShardingSpec> specs = get_shardings(node, attr);
  if (!specs.empty() && specs[0].mesh->axes != layouts_.mesh()->axes) specs.clear();
  return specs;
}

bool Formulator::is_plain(const Node& node) const {
  if (node.def->has(kDataFlow) || node.def->has(kTerminator)) return false;
  if (is<op::ShardingGroup, op::PropagationBarrier>(node)) return false;
  return own_shardings(node).empty();
}

void Formulator::prepare_strategies() {
  number_.assign(graph_.num_nodes(), -1);
  std::vector<bool> trivial;
  for (NodeId id : out_.schedule) {
    const Node& node = graph_.node(id);
    if (!is_plain(node)) continue;
    trivial.clear();
    for (ValueId operand : node.operands)
      trivial.push_back(trivial_[operand.index] || graph_.type(operand).rank() == 0);
    const bool made_of_constants =
        std::all_of(trivial.begin(), trivial.end(), [](bool t) { return t; });
    for (ValueId result : node.results) trivial_[result.index] = made_of_constants;
    number_[id.index] = book_.number(id, trivial);
  }
  book_.prepare(options_.threads);
  contracts_.assign(book_.size(), kUnknown);
}

bool Formulator::is_ranked(ValueId value) const {
  const Type& type = graph_.type(value);
  return type.is_tensor() && !type.unranked && type.has_static_shape();
}

void Formulator::arguments() {
  const Function& function = *graph_.find_function(options_.entry);
  for (ValueId arg : graph_.region(function.body).args) {
    int decision = 0;
    ListId list = intern({kNoSpec});
    if (is_ranked(arg)) {
      std::vector<std::string> pins;
      const std::string& name = names_.values[arg.index];
      const std::vector<SpecId> all = candidates(arg, pins);
      const std::vector<SpecId> specs = at_border(name, graph_.type(arg), all);
      decision = new_decision(static_cast<int>(specs.size()), name);
      // Its only user may want what is not allowed here.
      free_[decision] = pins.empty() && use_count_[arg.index] == 1 && !captured_[arg.index] &&
                        specs.size() == all.size();
      out_.decisions[decision].pins = std::move(pins);
      list = intern(specs);
    }
    out_.argument_versions.push_back(new_version(arg, decision, list, 0));
    version_of_[arg.index] = out_.argument_versions.back();
    share_copies(version_of_[arg.index]);
  }
}

void Formulator::region(RegionId id) {
  const std::vector<NodeId>& nodes = graph_.region(id).nodes;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) visit(nodes[i]);
}

void Formulator::visit(NodeId id) {
  const Node& node = graph_.node(id);
  switch (flow_of(node)) {
    case Flow::Loop:
      return visit_while(id);
    case Flow::Branches:
      return visit_branches(id);
    case Flow::Manual:
      return visit_manual(id);
    case Flow::Barrier:
      return visit_barrier(id);
    case Flow::Named:
    case Flow::Call:
      internal_check(false, "a flat module has no calls");
      break;
    case Flow::None:
    case Flow::Scan:
      break;
  }
  if (is<op::ShardingGroup>(node)) return;
  if (is<op::PropagationBarrier>(node)) return visit_barrier(id);
  if (const std::vector<ShardingSpec> specs = own_shardings(node); !specs.empty()) {
    if (is_ignored(names_.values[node.results[0].index])) return visit_barrier(id);
    if (specs.size() == 1) return visit_constraint(id, specs[0]);
    return visit_fixed(id, specs, specs);
  }
  visit_plain(id);
}

std::vector<int> Formulator::operand_versions(NodeId id) const {
  const Node& node = graph_.node(id);
  std::vector<int> versions;
  for (uint32_t i = 0; i < node.operands.size(); ++i) {
    const auto shared = shared_.find({id.index, i});
    versions.push_back(shared != shared_.end() ? shared->second
                                               : version_of_[node.operands[i].index]);
    internal_check(versions.back() >= 0, "a value is used before it is formulated");
  }
  return versions;
}

void Formulator::visit_plain(NodeId id) {
  const Node& node = graph_.node(id);
  internal_check(number_[id.index] >= 0, "an op was not numbered");
  const StrategySet& set = book_.strategies(number_[id.index]);
  const std::vector<int> operands = operand_versions(id);
  std::vector<int32_t> pick;
  const bool captured = std::any_of(node.results.begin(), node.results.end(),
                                    [&](ValueId result) { return captured_[result.index]; });
  int decision = captured ? 0 : join(id, set, operands, pick);
  if (captured) pick = {0};
  if (decision < 0) {
    const int count = static_cast<int>(set.list.size());
    decision = count == 1 ? 0 : new_decision(count, names_.nodes[id.index]);
    for (int s = 0; s < count; ++s) pick.push_back(s);
    // What lies as its only user wants it. Arguments that wait for a matmul do not: a layout of
    // their own may be all that fits.
    for (size_t i = 0; i < operands.size() && decision > 0; ++i) {
      const int from = out_.versions[operands[i]].decision;
      const bool elementwise = node.def->has(kElementwise);
      if (is_free(operands[i]) && (elementwise || !has_argument(from)))
        retarget(from, decision, picked(set, pick, i));
    }
    const bool fills = node.def->has(kRepeats) || node.def->has(kConstantLike);
    free_[decision] = decision > 0 && (fills || is_inside_its_user(id, operands));
  }
  const int op = new_op(id, decision, &set, pick, operands);
  for (size_t i = 0; i < operands.size(); ++i)
    if (is_ranked(node.operands[i]))
      demand(operands[i], decision, picked(set, pick, i), id, op, static_cast<int>(i));
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId result = node.results[i];
    const ListId list = picked(set, pick, operands.size() + i);
    version_of_[result.index] = new_version(result, decision, list, position(id));
    settle(result);
  }
}

// An op of one tensor in memory whose result is in none: resharding the tensor costs no more than
// resharding the result, unless the result is narrower.
bool Formulator::is_inside_its_user(NodeId id, const std::vector<int>& operands) const {
  const Node& node = graph_.node(id);
  if (!node.def->has(kElementwise) || node.results.size() != 1) return false;
  const ValueId result = node.results[0];
  if (use_count_[result.index] != 1 || captured_[result.index]) return false;
  if (analyze::spill_bytes(graph_, result) == 0) return false;
  int tensors = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Type& type = graph_.operand_type(node, i);
    if (type.shape.empty() || trivial_[node.operands[i].index]) continue;
    if (out_.versions[operands[i]].spill_bytes > 0) return false;
    if (type.byte_count() > graph_.result_type(node).byte_count()) return false;
    ++tensors;
  }
  return tensors == 1;
}

bool Formulator::is_free(int version) const {
  const Version& v = out_.versions[version];
  return v.decision > 0 && free_[v.decision] && use_count_[v.value.index] == 1 && v.source < 0;
}

int Formulator::join(NodeId id, const StrategySet& set, const std::vector<int>& operands,
                     std::vector<int32_t>& pick) {
  const Node& node = graph_.node(id);
  if (node.results.size() != 1 || !is_ranked(node.results[0])) return -1;
  const Shape& shape = graph_.result_type(node).shape;
  const bool elementwise = node.def->has(kElementwise);
  const bool view = node.def->has(kViewLike) && !node.def->has(kRepeats);
  if ((!elementwise && !view) || shape.empty()) return -1;

  // The decisions behind its tensors.
  std::vector<int> free, bound;
  int lead = -1, lead_operand = -1;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Shape& has = graph_.operand_type(node, i).shape;
    if (has.empty()) continue;
    if (elementwise && has != shape) return -1;
    const int decision = out_.versions[operands[i]].decision;
    // What is pinned, or lies as another user wants it, may be wider than the op had better run:
    // cutting it first costs less.
    if (decision == 0 || !out_.decisions[decision].pins.empty()) return -1;
    if (use_count_[node.operands[i].index] > 1) return -1;
    std::vector<int>& kind = is_free(operands[i]) ? free : bound;
    if (std::find(kind.begin(), kind.end(), decision) == kind.end()) kind.push_back(decision);
    if (lead < 0 || (is_free(lead) && !is_free(operands[i]))) {
      lead = operands[i];
      lead_operand = static_cast<int>(i);
    }
  }
  // A reshard of what is in memory costs less than one of what is computed from it in a kernel.
  if (lead >= 0 && out_.versions[lead].spill_bytes == 0 &&
      analyze::spill_bytes(graph_, node.results[0]) > 0 && !is_free(lead))
    return -1;
  if (lead < 0 || bound.size() > 1 || (view && bound.size() + free.size() != 1)) return -1;
  const int target = out_.versions[lead].decision;
  const ListId list = out_.versions[lead].list;
  const std::vector<int32_t>& found = strategies_for(set, lead_operand, list);
  if (found.empty()) return -1;
  for (int decision : free)
    if (decision != target && !retarget(decision, target, list)) return -1;
  pick = found;
  if (view) free_[target] = false;
  return target;
}

bool Formulator::retarget(int decision, int target, ListId list) {
  if (decision == target) return true;
  Decision& from = out_.decisions[decision];
  const std::vector<SpecId>& specs = out_.list(list);
  std::vector<std::vector<int32_t>> picks;
  for (int op : from.ops) {
    const FormulatedOp& member = out_.ops[op];
    picks.push_back(strategies_for(*member.set, member.operands.size(), list));
    if (picks.back().empty()) return false;
  }
  // An argument can lie in any layout that it could have chosen; never pending.
  for (int version : from.versions)
    if (!graph_.value(out_.versions[version].value).producer.valid())
      for (SpecId spec : specs)
        if (layouts_.is_partial(spec)) return false;
  for (size_t i = 0; i < from.ops.size(); ++i) {
    FormulatedOp& member = out_.ops[from.ops[i]];
    member.decision = target;
    member.pick = std::move(picks[i]);
    out_.decisions[target].ops.push_back(from.ops[i]);
  }
  for (int version : from.versions) {
    out_.versions[version].decision = target;
    out_.versions[version].list = list;
    out_.decisions[target].versions.push_back(version);
  }
  for (int index : demands_of_[decision]) {
    Demand& d = out_.demands[index];
    d.decision = target;
    d.list = picked(*out_.ops[d.op].set, out_.ops[d.op].pick, d.operand);
    demands_of_[target].push_back(index);
  }
  demands_of_[decision].clear();
  from = Decision{};
  return true;
}

bool Formulator::has_argument(int decision) const {
  const std::vector<int>& versions = out_.decisions[decision].versions;
  return std::any_of(versions.begin(), versions.end(),
                     [&](int v) { return !graph_.value(out_.versions[v].value).producer.valid(); });
}

int Formulator::new_decision(int count, std::string label) {
  Decision decision;
  decision.count = count;
  decision.label = std::move(label);
  out_.decisions.push_back(std::move(decision));
  free_.push_back(false);
  demands_of_.emplace_back();
  return static_cast<int>(out_.decisions.size()) - 1;
}

int Formulator::new_version(ValueId value, int decision, ListId list, int position) {
  Version version;
  version.value = value;
  version.decision = decision;
  version.list = list;
  version.first = version.last = position;
  version.spill_bytes = analyze::spill_bytes(graph_, value);
  out_.versions.push_back(version);
  const int id = static_cast<int>(out_.versions.size()) - 1;
  if (out_.definitions[value.index] < 0) out_.definitions[value.index] = id;
  out_.decisions[decision].versions.push_back(id);
  return id;
}

int Formulator::new_op(NodeId id, int decision, const StrategySet* set, std::vector<int32_t> pick,
                       std::vector<int> operands) {
  for (int version : operands)
    if (version >= 0)
      out_.versions[version].last = std::max(out_.versions[version].last, position(id));
  FormulatedOp entry;
  entry.node = id;
  entry.decision = decision;
  entry.set = set;
  entry.pick = std::move(pick);
  entry.operands = std::move(operands);
  entry.times = times_[id.index];
  entry.branch = branch_[id.index];
  entry.position = position(id);
  out_.ops.push_back(std::move(entry));
  const int op = static_cast<int>(out_.ops.size()) - 1;
  out_.decisions[decision].ops.push_back(op);
  return op;
}

void Formulator::demand(int version, int decision, ListId list, NodeId at, int op, int operand,
                        int copy) {
  demands_of_[decision].push_back(static_cast<int>(out_.demands.size()));
  const double times = at.valid() ? times_[at.index] : 1;
  const int branch = at.valid() ? branch_[at.index] : -1;
  out_.demands.push_back({version, decision, list, times, branch, op, operand, copy});
}

ListId Formulator::intern(std::vector<SpecId> list) {
  auto [it, is_new] =
      out_.list_ids_.try_emplace(std::move(list), static_cast<ListId>(out_.lists_.size()));
  if (is_new) out_.lists_.push_back(&it->first);
  return it->second;
}

ListId Formulator::picked(const StrategySet& set, const std::vector<int32_t>& pick, size_t tensor) {
  // Most ops have decisions of their own, which pick every strategy in its place.
  const bool is_all =
      pick.size() == set.list.size() &&
      std::adjacent_find(pick.begin(), pick.end(), std::greater_equal<>()) == pick.end();
  if (is_all)
    if (const auto known = of_all_.find({&set, tensor}); known != of_all_.end())
      return known->second;
  std::vector<SpecId> list;
  list.reserve(pick.size());
  for (int32_t s : pick) {
    const Strategy& strategy = set.list[s];
    list.push_back(tensor < strategy.operands.size()
                       ? strategy.operands[tensor]
                       : strategy.results[tensor - strategy.operands.size()]);
  }
  const ListId id = intern(std::move(list));
  if (is_all) of_all_.emplace(std::pair(&set, tensor), id);
  return id;
}

const std::vector<int32_t>& Formulator::strategies_for(const StrategySet& set, size_t tensor,
                                                       ListId list) {
  const auto [it, is_new] = found_.try_emplace({&set, tensor, list});
  if (!is_new) return it->second;
  for (SpecId spec : out_.list(list)) {
    const int s = set.find(tensor, spec);
    if (s < 0) {
      it->second.clear();
      break;
    }
    it->second.push_back(s);
  }
  return it->second;
}

// Decisions that others took over go.
void Formulator::compact() {
  std::vector<int> number(out_.decisions.size(), -1);
  std::vector<Decision> kept;
  for (size_t d = 0; d < out_.decisions.size(); ++d) {
    Decision& decision = out_.decisions[d];
    const bool is_empty = decision.ops.empty() && decision.versions.empty();
    if (d > 0 && is_empty && demands_of_[d].empty()) continue;
    number[d] = static_cast<int>(kept.size());
    kept.push_back(std::move(decision));
  }
  out_.decisions = std::move(kept);
  for (FormulatedOp& op : out_.ops) {
    op.decision = number[op.decision];
    for (FormulatedOp::Want& want : op.wants)
      if (want.decision >= 0) want.decision = number[want.decision];
  }
  for (Version& version : out_.versions) version.decision = number[version.decision];
  for (Demand& demand : out_.demands) demand.decision = number[demand.decision];
}

}  // namespace cleave::plan
