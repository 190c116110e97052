#include "cleave/rules/propagate/propagation.h"

#include <algorithm>
#include <utility>

#include "cleave/graph/value_sharding.h"
#include "cleave/graph/verify.h"
#include "cleave/rules/propagate/strategies.h"
#include "cleave/rules/sharding_groups.h"

namespace cleave {
namespace {

using Op = PropagationTables::Op;

bool has_no_axes(const ShardingSpec& spec) {
  return spec.replicated.empty() && spec.partial.empty() &&
         std::all_of(spec.dims.begin(), spec.dims.end(),
                     [](const DimSpec& dim) { return dim.axes.empty(); });
}

// The mesh of all specs; null where there is none or they disagree.
MeshPtr common_mesh(std::span<const ShardingSpec* const> specs) {
  const MeshPtr* mesh = nullptr;
  for (const ShardingSpec* spec : specs) {
    if (!spec) continue;
    if (!mesh || (*mesh)->is_empty()) {
      mesh = &spec->mesh;
    } else if (spec->mesh != *mesh && !spec->mesh->is_empty() && !same_mesh(*mesh, spec->mesh)) {
      return nullptr;
    }
  }
  return mesh ? *mesh : nullptr;
}

// Same layout and openness, whatever the priorities.
bool same_but_priorities(const ShardingSpec& a, const ShardingSpec& b) {
  if (a.dims.size() != b.dims.size() || a.replicated != b.replicated || a.partial != b.partial)
    return false;
  for (size_t d = 0; d < a.dims.size(); ++d)
    if (a.dims[d].axes != b.dims[d].axes || a.dims[d].open != b.dims[d].open) return false;
  return a.mesh == b.mesh || *a.mesh == *b.mesh;
}

}  // namespace

PropagationEngine::PropagationEngine(Graph& graph, PropagationOptions options)
    : graph_(graph),
      options_(options),
      tables_(build_propagation_tables(graph, specs_, options.conservative, options.runs_along)) {
  spec_ = tables_.initial;
  changed_at_.assign(spec_.size(), 1);
  clean_.resize(tables_.ops.size());
  on_stack_.assign(tables_.ops.size(), 0);
  for (Op& op : tables_.ops) update_single_use(op);
  const ShardingGroups groups = find_sharding_groups(graph);
  if (groups.empty()) return;
  group_of_slot_.assign(spec_.size(), -1);
  for (const std::vector<ValueId>& members : groups.members) {
    std::vector<int32_t>& slots = groups_.emplace_back();
    for (ValueId value : members) {
      const int32_t slot = tables_.slot_of_value[value.index];
      if (slot < 0) continue;
      slots.push_back(slot);
      group_of_slot_[slot] = static_cast<int32_t>(groups_.size() - 1);
    }
  }
}

void PropagationEngine::run() { make_strategy(options_)->propagate(*this, kAllOps); }

void PropagationEngine::update_single_use(Op& op) {
  op.single_use = true;
  for (ValueId operand : graph_.node(op.node).operands)
    if (tables_.use_count[operand.index] != 1 && graph_.type(operand).rank() > 0)
      op.single_use = false;
}

Direction PropagationEngine::direction(const Op& op, int stage, bool pass_through) const {
  switch (op.op_class) {
    case PropagationClass::Barrier:
      return op.allowed;
    case PropagationClass::Elementwise:
    case PropagationClass::PassThrough:
      if (stage >= 1 || op.single_use) return Direction::Both;
      return Direction::None;
    case PropagationClass::DynamicSlice: {
      const Direction early = stage >= 1 || op.single_use ? Direction::Forward : Direction::None;
      return stage >= 3 || (stage == 2 && pass_through) ? Direction::Both : early;
    }
    case PropagationClass::Broadcast:
      if (stage >= 4) return Direction::Both;
      return stage == 3 || (stage == 2 && pass_through) ? Direction::Backward : Direction::None;
    case PropagationClass::Other:
      return stage >= 3 || (stage == 2 && pass_through) ? Direction::Both : Direction::None;
  }
  return Direction::Both;
}

void PropagationEngine::push(uint32_t op_index) {
  if (on_stack_[op_index] || static_cast<int32_t>(op_index) == current_op_) return;
  on_stack_[op_index] = 1;
  stack_.push_back(op_index);
}

void PropagationEngine::sweep(const FactorPropagation& factors, int stage) {
  stage_ = static_cast<uint8_t>(stage);
  propagate_function_results(factors);
  current_op_ = -1;
  stack_.clear();
  for (size_t i = tables_.ops.size(); i-- > 0;) {
    if (tables_.ops[i].erased) continue;
    on_stack_[i] = 1;
    stack_.push_back(static_cast<uint32_t>(i));
  }
  while (!stack_.empty()) {
    const uint32_t op_index = stack_.back();
    stack_.pop_back();
    on_stack_[op_index] = 0;
    const Op& op = tables_.ops[op_index];
    if (op.erased) continue;
    if (op.removable && is_dead(op)) {
      erase(op_index);
      continue;
    }
    if (op.rule == PropagationTables::kNoRule) continue;
    current_op_ = static_cast<int32_t>(op_index);
    visit(op_index, factors, stage);
    current_op_ = -1;
  }
  propagate_function_results(factors);
}

void PropagationEngine::visit(uint32_t op_index, const FactorPropagation& factors, int stage) {
  const Op& op = tables_.ops[op_index];
  const Direction pass = direction(op, stage, true), other = direction(op, stage, false);
  if (pass == Direction::None && other == Direction::None) return;
  ++visits_;
  const std::span<const int32_t> tensors = tables_.tensors_of(op);
  const auto code =
      static_cast<uint8_t>(static_cast<uint8_t>(pass) * 4 + static_cast<uint8_t>(other));
  Clean& clean = clean_[op_index];
  uint32_t newest = 0;
  bool any = false;
  for (int32_t slot : tensors) {
    if (slot < 0) continue;
    newest = std::max(newest, changed_at_[slot]);
    any |= spec_[slot] >= 0;
  }
  if (!any) return;
  if (clean.factors == &factors && clean.directions == code && newest <= clean.clock) return;

  tensor_specs_.clear();
  for (int32_t slot : tensors) tensor_specs_.push_back(specs_.find(spec_of(slot)));
  const PropagationTables::ManualEdge* manual =
      op.manual_edge < 0 ? nullptr : &tables_.manual_edges[op.manual_edge];
  ShardingSpec transformed;
  if (manual && tensor_specs_.back()) {
    const Node& node = graph_.node(manual->op);
    transformed = manual->argument ? with_manual_axes(manual->outer, *tensor_specs_.back(), node)
                                   : erase_manual_axes(*tensor_specs_.back(), node);
    tensor_specs_.back() = &transformed;
  }
  const MeshPtr mesh = common_mesh(tensor_specs_);
  if (!mesh || mesh->is_maximal()) return;

  const RuleIndex& index = *tables_.rules[op.rule];
  project(index, tensor_specs_, projection_);
  directions_.resize(index.num_factors);
  for (int f = 0; f < index.num_factors; ++f) {
    const Factor& factor = index.rule->factors[f];
    directions_[f] = factor.blocked                           ? Direction::None
                     : factor.kind == FactorKind::PassThrough ? pass
                                                              : other;
  }
  factors.propagate(projection_, {directions_, *mesh, options_.conservative, op.elementwise});

  bool updated = false;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!projection_.changed[t] || tensors[t] < 0) continue;
    ShardingSpec spec = to_spec(projection_, static_cast<int>(t), mesh);
    const ShardingSpec* old = tensor_specs_[t];
    if (old ? same_but_priorities(*old, spec) : has_no_axes(spec)) continue;
    if (manual && t + 1 == tensors.size()) {
      const Node& node = graph_.node(manual->op);
      spec = manual->argument ? erase_manual_axes(spec, node)
                              : with_manual_axes(manual->outer, spec, node);
    }
    set_slot(tensors[t], specs_.intern(std::move(spec)), static_cast<int32_t>(op_index),
             ChangeCause::Op);
    updated = true;
  }
  if (!updated) clean = {clock_, code, &factors};
}

void PropagationEngine::set_slot(int32_t slot, int32_t spec, int32_t op, ChangeCause cause,
                                 int32_t other) {
  changes_.push_back({visits_, op, slot, spec_[slot], spec, other, cause, stage_, priority_});
  const bool first = spec_[slot] < 0;
  spec_[slot] = spec;
  changed_at_[slot] = ++clock_;
  if (first) open_other_results(slot);
  for (uint32_t notified : tables_.notified_by(slot))
    if (!(notified & PropagationTables::kLastStage) || stage_ == kAllOps)
      push(notified & ~PropagationTables::kLastStage);
  if (group_of_slot_.empty() || cause == ChangeCause::Group || group_of_slot_[slot] < 0) return;
  for (int32_t member : groups_[group_of_slot_[slot]])
    if (member != slot && spec_[member] != spec)
      set_slot(member, spec, op, ChangeCause::Group, slot);
}

// An op holds the shardings of its results together: where one has a sharding, the others are open.
void PropagationEngine::open_other_results(int32_t slot) {
  const ValueId value = tables_.slots[slot].value;
  if (!value.valid()) return;
  const NodeId producer = graph_.value(value).producer;
  if (!producer.valid()) return;
  const Node& node = graph_.node(producer);
  if (node.results.size() < 2) return;
  for (ValueId result : node.results) {
    const int32_t other = tables_.slot_of_value[result.index];
    if (other < 0 || other == slot || spec_[other] >= 0 || tables_.slots[other].value != result)
      continue;
    spec_[other] = specs_.intern(
        ShardingSpec::fully_open(specs_[spec_[slot]].mesh, graph_.type(result).rank()));
  }
}

void PropagationEngine::assign(int32_t slot, int32_t spec, ChangeCause cause, int16_t priority,
                               int32_t other_slot) {
  priority_ = priority;
  if (spec == spec_[slot]) return;
  changes_.push_back({visits_, -1, slot, spec_[slot], spec, other_slot, cause, stage_, priority_});
  spec_[slot] = spec;
  changed_at_[slot] = ++clock_;
}

void PropagationEngine::propagate_function_results(const FactorPropagation& factors) {
  current_op_ = -1;
  for (const PropagationTables::FunctionResult& result : tables_.function_results) {
    if (result.value_slot < 0) continue;
    const int32_t slots[] = {result.value_slot, result.result_slot};
    tensor_specs_.clear();
    for (int32_t slot : slots) tensor_specs_.push_back(specs_.find(spec_[slot]));
    const MeshPtr mesh = common_mesh(tensor_specs_);
    if (!mesh || mesh->is_maximal() || spec_[slots[0]] == spec_[slots[1]]) continue;
    const RuleIndex& index = *tables_.rules[result.rule];
    project(index, tensor_specs_, projection_);
    directions_.assign(index.num_factors, Direction::Both);
    factors.propagate(projection_, {directions_, *mesh, false, false});
    for (int t = 0; t < 2; ++t) {
      if (!projection_.changed[t]) continue;
      ShardingSpec spec = to_spec(projection_, t, mesh);
      const ShardingSpec* old = tensor_specs_[t];
      if (old ? same_but_priorities(*old, spec) : has_no_axes(spec)) continue;
      set_slot(slots[t], specs_.intern(std::move(spec)), -1, ChangeCause::FunctionResult,
               slots[1 - t]);
    }
  }
  for (uint32_t op : stack_) on_stack_[op] = 0;
  stack_.clear();
}

void propagate_shardings(Graph& graph, const PropagationOptions& options) {
  verify_graph(graph);
  PropagationEngine engine(graph, options);
  engine.run();
  engine.write_back();
}

}  // namespace cleave
