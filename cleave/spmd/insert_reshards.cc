#include <algorithm>
#include <map>
#include <optional>

#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/propagate/projection.h"
#include "cleave/rules/propagate/propagation_tables.h"
#include "cleave/spmd/axis_difference.h"
#include "cleave/spmd/common_axes.h"
#include "cleave/spmd/op_layouts.h"
#include "cleave/spmd/reshard_passes.h"

namespace cleave {
namespace {

using MaybeSpec = std::optional<ShardingSpec>;

bool is_replicated(const MaybeSpec& spec) { return !spec || spec->is_fully_replicated(); }

// The same layout, a missing spec being replicated.
bool equivalent(const MaybeSpec& a, const MaybeSpec& b) {
  if (is_replicated(a) || is_replicated(b)) return is_replicated(a) && is_replicated(b);
  return a->same_layout(*b);
}

ShardingSpec replicated_like(const ShardingSpec& spec) {
  return ShardingSpec::closed_replicated(spec.mesh, spec.rank());
}

class Inserter {
 public:
  Inserter(Graph& graph, bool full) : graph_(graph), full_(full) {}

  void run() {
    for (size_t f = 0; f < graph_.functions.size(); ++f) {
      if (!graph_.functions[f].body.valid()) continue;
      check_function(graph_.functions[f]);
      visit_region(graph_.functions[f].body);
      fit_returned(f);
    }
  }

 private:
  struct Use {
    NodeId user;
    size_t operand;
  };

  // Nodes inside an op come before the op itself; values that were replaced are followed on the
  // way.
  void visit_region(RegionId region) {
    const std::vector<NodeId> nodes = graph_.region(region).nodes;
    for (NodeId id : nodes) {
      for (ValueId& operand : graph_.node(id).operands) operand = current(operand);
      const std::vector<RegionId> inner = graph_.node(id).regions;
      for (RegionId r : inner) visit_region(r);
      const OpDef* def = graph_.node(id).def;
      const bool terminator = def->has(kTerminator) || id == nodes.back();
      if (!terminator) visit(id);
    }
  }

  ValueId current(ValueId value) const {
    auto it = moved_.find(value);
    return it == moved_.end() ? value : current(it->second);
  }

  bool is_full(const Node& node) const {
    if (full_ || node.name() == "mhlo.ragged_dot" || is<op::Call>(node)) return true;
    if (!is<op::Concatenate>(node)) return false;
    const MaybeSpec result = get_sharding(graph_, node.results[0]);
    return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
      return flowing_sharding(graph_, operand) != result;
    });
  }

  void visit(NodeId id) {
    const bool full = is_full(graph_.node(id));
    if (is_data_flow_op(graph_.node(id)))
      fit_data_flow(id, full);
    else if (is<op::Call>(graph_.node(id)))
      fit_call(id, full);
    else if (!reshard_into_partial(id))
      fit_op(id, full);
  }

  // A new node in front of `position`, or right behind the value that it takes.
  ValueId insert(std::string_view op, ValueId input, AttrDict attrs, NodeId position,
                 bool behind_value) {
    const NodeId node = graph_.add_node(op, {input}, {graph_.type(input)}, std::move(attrs));
    const Value& value = graph_.value(input);
    if (!behind_value) {
      graph_.insert_before(position, node);
    } else if (value.producer.valid()) {
      graph_.insert_after(value.producer, node);
    } else {
      graph_.insert_before(graph_.region(value.region).nodes.front(), node);
    }
    return graph_.node(node).results[0];
  }
  ValueId insert_reshard(ValueId input, const ShardingSpec& spec, NodeId position,
                         bool behind_value = false) {
    AttrDict attrs;
    attrs.set("sharding", ShardingAttr{spec});
    return insert("sdy.reshard", input, std::move(attrs), position, behind_value);
  }
  AttrDict all_reduce_attrs(const AxisList& axes, const ShardingSpec& after, ReduceOp reduce) {
    AttrDict attrs;
    attrs.set("reduction_axes", AxisListsAttr{"sdy.axis_ref_list", {axes}, after.mesh});
    if (reduce != ReduceOp::Sum)
      attrs.set("reduction_op", EnumAttr{"sdy.reduction_op", std::string(name(reduce))});
    attrs.set("out_sharding", ShardingAttr{after});
    return attrs;
  }

  ValueId operand(const Use& use) const { return graph_.node(use.user).operands[use.operand]; }
  void set_operand(const Use& use, ValueId value) {
    graph_.node(use.user).operands[use.operand] = value;
  }

  // Completes the partial axes that the user does not take; the spec after that.
  MaybeSpec complete(const Use& use, MaybeSpec source, const MaybeSpec& wanted, NodeId position,
                     bool behind_value) {
    if (!source || source->partial.empty()) return source;
    const AxisList axes = difference(source->partial, wanted ? wanted->partial : AxisList{});
    if (axes.empty()) return source;
    ShardingSpec after = *source;
    after.partial = difference(source->partial, axes);
    set_operand(use,
                insert("sdy.all_reduce", operand(use),
                       all_reduce_attrs(axes, after, source->partial_op), position, behind_value));
    return after;
  }

  // Where the target is partial along axes that the source shards or replicates. Returns the spec
  // then reached; nothing where nothing was to do.
  MaybeSpec make_partial(const Use& use, const MaybeSpec& wanted, NodeId position,
                         bool behind_value) {
    const MaybeSpec source = flowing_sharding(graph_, operand(use));
    if (!source || !wanted || wanted->partial.empty()) return std::nullopt;
    const AxisList added = difference(wanted->partial, source->partial);
    if (added.empty()) return std::nullopt;
    if (!difference(source->partial, wanted->partial).empty())
      throw_user("reshard from {} to {}: each has partial axes that the other lacks",
                 to_string(*source), to_string(*wanted));
    ShardingSpec middle = *wanted;
    middle.partial = source->partial;
    middle.partial_op = source->partial_op;
    std::vector<AxisList> padded(source->rank());
    AxisList from_dims;
    bool reshard = false;
    for (size_t d = 0; d < source->rank(); ++d) {
      const AxisList& has = source->dims[d].axes;
      const AxisList& wants = wanted->dims[d].axes;
      if (has == wants) continue;
      const AxisList rest = is_prefix_of(wants, has) ? suffix_beyond(has, wants) : AxisList{};
      if (!rest.empty() && difference(rest, added).empty()) {
        padded[d] = rest;
        from_dims.insert(from_dims.end(), rest.begin(), rest.end());
        middle.dims[d] = source->dims[d];
      } else {
        reshard = true;
      }
    }
    ValueId value = operand(use);
    ShardingSpec reached = *source;
    if (reshard) {
      reached = middle;
      reached.replicated = source->replicated;
      value = insert_reshard(value, reached, position, behind_value);
    }
    const AxisList replicated = difference(added, from_dims);
    if (!replicated.empty()) {
      reached = middle;
      reached.partial.insert(reached.partial.end(), replicated.begin(), replicated.end());
      std::sort(reached.partial.begin(), reached.partial.end());
      merge_neighbours(reached.partial);
      reached.partial_op = wanted->partial_op;
      AttrDict attrs;
      attrs.set("axes", AxisListsAttr{"sdy.axis_ref_list", {replicated}, reached.mesh});
      attrs.set("out_sharding", ShardingAttr{reached});
      value =
          insert("sdy.replicated_to_unreduced", value, std::move(attrs), position, behind_value);
    }
    if (!from_dims.empty()) {
      reached = *wanted;
      AttrDict attrs;
      attrs.set("axes", AxisListsAttr{"sdy.list_of_axis_ref_lists", padded, reached.mesh});
      attrs.set("out_sharding", ShardingAttr{reached});
      value = insert("sdy.sharded_to_unreduced", value, std::move(attrs), position, behind_value);
    }
    set_operand(use, value);
    return reached;
  }

  void fit(const Use& use, const MaybeSpec& wanted, NodeId position, bool behind_value, bool full) {
    if (!graph_.type(operand(use)).is_tensor()) return;
    MaybeSpec has = flowing_sharding(graph_, operand(use));
    has = complete(use, has, wanted, position, behind_value);
    if (MaybeSpec reached = make_partial(use, wanted, position, behind_value)) has = reached;
    if (!full || equivalent(has, wanted)) return;
    set_operand(use, insert_reshard(operand(use), wanted ? *wanted : replicated_like(*has),
                                    position, behind_value));
  }

  void fit_returned(size_t function) {
    const NodeId terminator = graph_.terminator(graph_.functions[function].body);
    const size_t count = graph_.node(terminator).operands.size();
    for (size_t i = 0; i < count; ++i) {
      const ShardingSpec* spec = sharding_in(graph_.functions[function].result_attrs[i]);
      fit({terminator, i}, spec ? MaybeSpec(*spec) : std::nullopt, terminator, false, full_);
    }
  }

  void fit_data_flow(NodeId id, bool full) {
    std::vector<Use> uses;
    auto add = [&](NodeId user) {
      for (size_t i = 0; i < graph_.node(user).operands.size(); ++i) uses.push_back({user, i});
    };
    add(id);
    for (RegionId region : graph_.node(id).regions)
      if (!graph_.region(region).nodes.empty()) add(graph_.terminator(region));
    std::vector<ValueId> owners = result_owners(graph_, graph_.node(id));
    for (ValueId owner : argument_owners(graph_, graph_.node(id))) owners.push_back(owner);
    const bool manual = is<op::ManualComputation>(graph_.node(id));
    for (ValueId owner : owners) {
      for (const Use& use : uses) {
        if (edge_owner_of_source(graph_, use.user, static_cast<uint32_t>(use.operand)) != owner)
          continue;
        MaybeSpec wanted = get_sharding(graph_, owner);
        if (manual && use.user == id) {
          const auto specs = get_shardings(graph_.node(id), "in_shardings");
          if (use.operand < specs.size()) wanted = specs[use.operand];
        } else if (manual && wanted) {
          wanted = erase_manual_axes(*wanted, graph_.node(id));
        }
        fit(use, wanted, id, true, full);
      }
    }
  }

  void fit_call(NodeId id, bool full) {
    const Function* callee = cleave::callee(graph_, graph_.node(id));
    if (!callee) return;
    std::vector<MaybeSpec> wanted;
    MeshPtr mesh;
    for (const AttrDict& attrs : callee->arg_attrs) {
      const ShardingSpec* spec = sharding_in(attrs);
      wanted.push_back(spec ? MaybeSpec(*spec) : std::nullopt);
      if (spec && !mesh) mesh = spec->mesh;
    }
    for (ValueId value : graph_.node(id).operands)
      if (auto spec = flowing_sharding(graph_, value); spec && !mesh && !spec->mesh->is_maximal())
        mesh = spec->mesh;
    if (!mesh) return;
    for (size_t i = 0; i < wanted.size() && i < graph_.node(id).operands.size(); ++i) {
      const Type& type = graph_.type(graph_.node(id).operands[i]);
      if (!wanted[i] && type.is_tensor())
        wanted[i] = ShardingSpec::closed_replicated(mesh, type.rank());
      fit({id, i}, wanted[i], id, true, full);
    }
  }

  // An sdy.reshard into a partial layout becomes the local steps that make it so.
  bool reshard_into_partial(NodeId id) {
    if (!is<op::Reshard>(graph_.node(id))) return false;
    const ValueId result = graph_.node(id).results[0];
    const Use use{id, 0};
    if (!make_partial(use, get_sharding(graph_, result), id, false)) return false;
    moved_[result] = operand(use);
    graph_.remove(id);
    return true;
  }

  std::vector<MaybeSpec> specs_of(const std::vector<ValueId>& values) const {
    std::vector<MaybeSpec> specs;
    for (ValueId value : values)
      specs.push_back(flowing_sharding(graph_, through_barriers(graph_, value)));
    return specs;
  }

  // The mesh of an op: of those that differ in the order of devices, the most used. Null where the
  // axes differ, or nothing is sharded.
  static MeshPtr common_mesh(const std::vector<MaybeSpec>& specs) {
    MeshPtr common;
    for (const MaybeSpec& spec : specs) {
      if (!spec || spec->mesh->is_empty()) continue;
      if (spec->mesh->is_maximal()) return nullptr;
      if (common && common->axes != spec->mesh->axes) return nullptr;
      if (!common) common = spec->mesh;
    }
    std::map<std::string, int> count;
    int most = 0;
    for (const MaybeSpec& spec : specs) {
      if (is_replicated(spec)) continue;
      const int now = ++count[to_string(*spec->mesh)];
      if (now > most) {
        most = now;
        common = spec->mesh;
      }
    }
    return common;
  }

  void complete_operands(NodeId id) {
    if (graph_.node(id).results.empty()) return;
    const MaybeSpec wanted = get_sharding(graph_, graph_.node(id).results[0]);
    for (size_t i = 0; i < graph_.node(id).operands.size(); ++i)
      complete({id, i}, flowing_sharding(graph_, graph_.node(id).operands[i]), wanted, id, false);
  }

  void fit_op(NodeId id, bool full) {
    complete_operands(id);
    if (fit_single_device(id)) return;
    const auto rule = op_rule(graph_, graph_.node(id)).propagation;
    if (!rule || rule->is_custom || rule->empty()) return;
    const std::vector<ValueId> operands = graph_.node(id).operands;
    const std::vector<ValueId> results = graph_.node(id).results;
    std::vector<MaybeSpec> specs = specs_of(operands);
    for (MaybeSpec& spec : specs_of(results)) specs.push_back(std::move(spec));
    const MeshPtr mesh = common_mesh(specs);
    if (!mesh) return;

    std::vector<ShardingSpec> given;
    std::vector<int64_t> sizes;
    for (size_t t = 0; t < specs.size(); ++t) {
      const Type& type =
          graph_.type(t < operands.size() ? operands[t] : results[t - operands.size()]);
      given.push_back(specs[t] && !specs[t]->mesh->is_empty()
                          ? *specs[t]
                          : ShardingSpec::closed_replicated(mesh, type.rank()));
      sizes.push_back(type.has_static_shape() ? num_elements(type.shape) : 0);
    }
    std::vector<const ShardingSpec*> pointers;
    for (const ShardingSpec& spec : given) pointers.push_back(&spec);
    const RuleIndex index(rule);
    if (index.num_tensors != static_cast<int>(given.size())) return;
    Projection projection;
    project(index, pointers, projection);
    if (!full) {
      if (is<op::Dot, op::DotGeneral>(graph_.node(id)))
        reshard_dot_result(id, projection, *rule, mesh, sizes);
      const MaybeSpec result = results.empty() ? std::nullopt : get_sharding(graph_, results[0]);
      if (result && result->is_partial())
        fit_results(id, projection, reduction_axes(id, projection, *rule), *rule, mesh, given,
                    [](size_t) { return false; });
      return;
    }
    const AxesPerFactor common = find_common_axes(projection, *mesh, sizes);
    std::vector<bool> changed(given.size(), false);
    for (size_t e = 0; e < projection.entries.size(); ++e) {
      FactorSharding& sharding = projection.entries[e];
      const RuleIndex::Entry& entry = index.entries[e];
      if (!sharding.present) continue;
      const AxisList& axes = common[entry.factor];
      const bool same =
          std::equal(sharding.axes.begin(), sharding.axes.end(), axes.begin(), axes.end());
      if (same && sharding.overflow.empty()) continue;
      sharding.axes.assign(axes.begin(), axes.end());
      sharding.overflow.clear();
      changed[entry.tensor] = true;
    }
    auto needs_reshard = [&](size_t t) {
      return changed[t] ||
             (!is_replicated(specs[t]) && specs[t]->mesh->device_ids != mesh->device_ids);
    };
    for (size_t i = 0; i < operands.size(); ++i)
      if (needs_reshard(i))
        set_operand({id, i}, insert_reshard(operands[i],
                                            to_spec(projection, static_cast<int>(i), mesh), id));
    fit_results(id, projection, common, *rule, mesh, given, needs_reshard);
  }

  template <typename Needs>
  void fit_results(NodeId id, const Projection& projection, const AxesPerFactor& common,
                   const OpShardingRule& rule, const MeshPtr& mesh,
                   const std::vector<ShardingSpec>& given, const Needs& needs_reshard) {
    const std::vector<ValueId> results = graph_.node(id).results;
    if (results.empty()) return;
    const size_t first = graph_.node(id).operands.size();
    const MaybeSpec first_result = get_sharding(graph_, results[0]);
    const AxisList reduced = difference(own_partials(rule, common).axes,
                                        first_result ? first_result->partial : AxisList{});
    NodeId last = id;
    auto place = [&](std::string_view op, ValueId input, AttrDict attrs) {
      const NodeId node = graph_.add_node(op, {input}, {graph_.type(input)}, std::move(attrs));
      graph_.insert_after(last, node);
      last = node;
      return graph_.node(node).results[0];
    };
    std::vector<ValueId> values = results;
    for (size_t r = 0; r < results.size(); ++r)
      if (needs_reshard(first + r))
        set_sharding(graph_, results[r], to_spec(projection, static_cast<int>(first + r), mesh));
    for (size_t r = 0; r < results.size() && !reduced.empty(); ++r) {
      MaybeSpec after = get_sharding(graph_, results[r]);
      if (!after) after = ShardingSpec::closed_replicated(mesh, graph_.type(results[r]).rank());
      values[r] =
          place("sdy.all_reduce", values[r], all_reduce_attrs(reduced, *after, after->partial_op));
    }
    for (size_t r = 0; r < results.size(); ++r) {
      if (needs_reshard(first + r)) {
        AttrDict attrs;
        attrs.set("sharding", ShardingAttr{given[first + r]});
        values[r] = place("sdy.reshard", values[r], std::move(attrs));
      }
      if (values[r] != results[r]) moved_[results[r]] = values[r];
    }
  }

  // The axes of each reduction factor, which all operands must share.
  AxesPerFactor reduction_axes(NodeId id, const Projection& projection,
                               const OpShardingRule& rule) const {
    AxesPerFactor axes(rule.factors.size());
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (rule.factors[f].kind != FactorKind::Reduction) continue;
      bool seen = false;
      for (size_t t = 0; t < rule.num_tensors(); ++t) {
        const FactorSharding* sharding = projection.find(static_cast<int>(t), static_cast<int>(f));
        if (!sharding) continue;
        const AxisList has(sharding->axes.begin(), sharding->axes.end());
        if (seen && has != axes[f])
          throw_user("{}: the result is partial, but operands differ along a reduced dimension",
                     graph_.node(id).name());
        axes[f] = has;
        seen = true;
      }
    }
    return axes;
  }

  // An op with a result on a single device: its operands go there through replication, its results
  // come back the same way.
  bool fit_single_device(NodeId id) {
    MeshPtr single;
    const std::vector<ValueId> results = graph_.node(id).results;
    std::vector<MaybeSpec> before;
    for (ValueId result : results) {
      before.push_back(get_sharding(graph_, result));
      if (!before.back() || !before.back()->mesh->is_maximal()) continue;
      if (single && single->device_ids != before.back()->mesh->device_ids)
        throw_user("{} has conflicting single-device result shardings", graph_.node(id).name());
      single = before.back()->mesh;
    }
    if (!single) return false;
    auto global = std::find_if(graph_.meshes.begin(), graph_.meshes.end(), [](const MeshPtr& mesh) {
      return !mesh->is_maximal() && !mesh->is_empty();
    });
    if (global == graph_.meshes.end()) return true;
    const ShardingSpec there = ShardingSpec::closed_replicated(single, 0);
    for (size_t i = 0; i < graph_.node(id).operands.size(); ++i) {
      const ValueId value = graph_.node(id).operands[i];
      const Type type = graph_.type(value);
      if (!type.is_tensor()) continue;
      const MaybeSpec has = flowing_sharding(graph_, value);
      if (has && has->mesh->is_maximal() && has->mesh->device_ids == single->device_ids) continue;
      const ShardingSpec everywhere = ShardingSpec::closed_replicated(*global, type.rank());
      ValueId moved = value;
      if (has && (!has->is_fully_replicated() || has->mesh != *global))
        moved = insert_reshard(moved, everywhere, id);
      set_operand({id, i}, insert_reshard(moved, there, id));
    }
    NodeId last = id;
    auto place = [&](ValueId input, const ShardingSpec& spec) {
      AttrDict attrs;
      attrs.set("sharding", ShardingAttr{spec});
      const NodeId node =
          graph_.add_node("sdy.reshard", {input}, {graph_.type(input)}, std::move(attrs));
      graph_.insert_after(last, node);
      last = node;
      return graph_.node(node).results[0];
    };
    std::vector<ShardingSpec> specs;
    for (size_t r = 0; r < results.size(); ++r) {
      const Type type = graph_.type(results[r]);
      const ShardingSpec everywhere = ShardingSpec::closed_replicated(*global, type.rank());
      specs.push_back(type.is_tensor() ? there : everywhere);
      if (!type.is_tensor()) continue;
      ValueId back = place(results[r], everywhere);
      if (before[r] && !before[r]->mesh->is_maximal() && !(*before[r] == everywhere))
        back = place(back, *before[r]);
      moved_[results[r]] = back;
    }
    set_shardings(graph_.node(id), kShardingAttr, std::move(specs));
    return true;
  }

  void check_function(const Function& function) const {
    auto check = [&](const std::vector<AttrDict>& list, std::string_view what) {
      for (size_t i = 0; i < list.size(); ++i)
        if (const ShardingSpec* spec = sharding_in(list[i]); spec && spec->mesh->is_maximal())
          throw_user("function {} {} cannot have a single-device (maximal) sharding attribute",
                     what, i);
    };
    check(function.arg_attrs, "argument");
    check(function.result_attrs, "result");
  }

  // A matmul whose operands agree, and whose result is sharded along the contracted axes in one
  // dimension where an operand is sharded otherwise: the result, not the larger operand, is
  // resharded.
  void reshard_dot_result(NodeId id, Projection& projection, const OpShardingRule& rule,
                          const MeshPtr& mesh, const std::vector<int64_t>& sizes) {
    const ValueId result = graph_.node(id).results[0];
    const MaybeSpec before = get_sharding(graph_, result);
    if (!before) return;
    std::optional<int> conflict;
    Axes wanted;
    AxisList reduced, seen;
    for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
      const FactorSharding* lhs = projection.find(0, f);
      const FactorSharding* rhs = projection.find(1, f);
      if (!lhs && !rhs) continue;
      const Axes& axes = lhs ? lhs->axes : rhs->axes;
      int64_t size = lhs ? sizes[0] : sizes[1];
      if (lhs && rhs) {
        if (!(lhs->axes == rhs->axes)) return;
        size = std::max(sizes[0], sizes[1]);
        if (rule.factors[f].kind == FactorKind::Reduction) {
          reduced.insert(reduced.end(), axes.begin(), axes.end());
          continue;
        }
      } else {
        for (const AxisRef& ref : axes) {
          if (overlaps_any(ref, seen)) return;
          seen.push_back(ref);
        }
      }
      const FactorSharding* out = projection.find(2, f);
      if (!out || out->axes == axes) continue;
      if (axes.empty() || conflict || sizes[2] > size) return;
      conflict = f;
      wanted = axes;
    }
    if (!conflict) return;
    FactorSharding* out = projection.find(2, *conflict);
    if (out->axes.empty() ||
        !std::equal(out->axes.begin(), out->axes.end(), reduced.begin(), reduced.end()))
      return;
    out->axes = wanted;
    set_sharding(graph_, result, to_spec(projection, 2, mesh));
    AttrDict attrs;
    attrs.set("sharding", ShardingAttr{*before});
    const NodeId node =
        graph_.add_node("sdy.reshard", {result}, {graph_.type(result)}, std::move(attrs));
    graph_.insert_after(id, node);
    moved_[result] = graph_.node(node).results[0];
  }

  Graph& graph_;
  bool full_;
  std::map<ValueId, ValueId> moved_;
};

}  // namespace

void insert_explicit_reshards(Graph& graph, bool full) { Inserter(graph, full).run(); }

}  // namespace cleave
