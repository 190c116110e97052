#include "cleave/discover/register.h"

#include <algorithm>
#include <memory>

#include "cleave/core/error.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/discover/condition_value.h"
#include "cleave/discover/rule_groups.h"
#include "cleave/discover/synthesize.h"
#include "cleave/graph/op_def.h"
#include "cleave/rules/rule_sketch.h"

namespace cleave {
namespace {

// What of a report the functions need.
struct FoundRules {
  std::vector<RuleGroup> groups;  // if one function is right for all calls
  std::vector<std::string> dim_attrs;
  struct Call {
    std::vector<Shape> operands, results;
    AttrMap attrs;
    SynthesizedRule made;
  };
  std::vector<Call> calls;  // otherwise
  bool general = false;
};
using FoundPtr = std::shared_ptr<const FoundRules>;

AttrMap counted_from_front(AttrMap attrs, const std::vector<std::string>& dims, size_t rank) {
  const auto fix = [&](int64_t& dim) {
    if (dim < 0) dim += static_cast<int64_t>(rank);
  };
  for (const std::string& name : dims) {
    const auto it = attrs.find(name);
    if (it == attrs.end()) continue;
    if (auto* dim = std::get_if<int64_t>(&it->second)) fix(*dim);
    if (auto* list = std::get_if<std::vector<int64_t>>(&it->second))
      std::ranges::for_each(*list, fix);
  }
  return attrs;
}

FoundPtr found_rules(const Discovery& found) {
  auto rules = std::make_shared<FoundRules>();
  rules->dim_attrs = found.dim_attrs;
  rules->groups = rule_groups(found);
  rules->general = has_general_rule(found, rules->groups);
  if (rules->general) return rules;
  for (const SampleDecisions& sample : found.samples) {
    FoundRules::Call call{{}, sample.result_shapes, {}, synthesize(sample)};
    for (const TensorDesc& desc : sample.sample.operands) call.operands.push_back(desc.shape);
    for (const auto& [name, value] : sample.sample.attrs)
      if (std::ranges::find(found.attributes, name) != found.attributes.end())
        call.attrs.emplace(name, value);
    const size_t rank = call.operands.empty() ? 0 : call.operands[0].size();
    call.attrs = counted_from_front(std::move(call.attrs), found.dim_attrs, rank);
    rules->calls.push_back(std::move(call));
  }
  return rules;
}

std::vector<Shape> value_shapes(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Shape> shapes;
  for (ValueId value : values) shapes.push_back(graph.type(value).shape);
  return shapes;
}

ConditionScope scope_of(const FoundRules& rules, const Graph& graph, const Node& node) {
  ConditionScope scope;
  const size_t rank = node.operands.empty() ? 0 : graph.operand_type(node, 0).shape.size();
  scope.attrs = counted_from_front(attr_map_of(node.attrs), rules.dim_attrs, rank);
  if (!node.operands.empty()) scope.shape = graph.operand_type(node, 0).shape;
  return scope;
}

// The call that was tried with these shapes and attributes. Two that differ in neither, but in
// their rules, say nothing.
const FoundRules::Call* call_like(const FoundRules& rules, const Graph& graph, const Node& node) {
  const std::vector<Shape> operands = value_shapes(graph, node.operands);
  const std::vector<Shape> results = value_shapes(graph, node.results);
  const AttrMap attrs = counted_from_front(attr_map_of(node.attrs), rules.dim_attrs,
                                           operands.empty() ? 0 : operands[0].size());
  const FoundRules::Call* like = nullptr;
  for (const FoundRules::Call& call : rules.calls) {
    const bool same_attrs = std::ranges::all_of(call.attrs, [&](const auto& each) {
      const auto it = attrs.find(each.first);
      return it != attrs.end() && it->second == each.second;
    });
    if (call.operands != operands || call.results != results || !same_attrs) continue;
    if (like && !(like->made.rule == call.made.rule && like->made.partial == call.made.partial))
      return nullptr;
    like = &call;
  }
  return like;
}

void add_factors(const RuleGroup& found, ConditionScope scope, const Graph& graph, const Node& node,
                 RuleSketch& sketch) {
  const auto called = in_call(found, scope.attrs, value_shapes(graph, node.operands),
                              value_shapes(graph, node.results));
  if (!called) return;
  const RuleGroup& group = *called;
  int64_t last = 1;
  if (group.uses_d()) {
    const auto base = std::ranges::find_if(group.operands, [](const PlacePattern& p) {
      return p.kind == PlacePattern::Kind::ShardOfD;
    });
    scope.shape =
        graph.operand_type(node, static_cast<size_t>(base - group.operands.begin())).shape;
    last = static_cast<int64_t>(scope.shape.size());
  }
  for (int64_t d = 0; d < last; ++d) {
    if (group.uses_d()) scope.d = d;
    if (!condition_holds(group.condition, scope).value_or(false)) continue;
    const auto dim = [&](const PlacePattern& p) {
      return RuleGroup::is_sharded(p) ? placement_at(p, d).dim : kNoDim;
    };
    std::vector<int> from, to;
    for (const PlacePattern& p : group.operands) from.push_back(dim(p));
    for (const auto& p : group.results) to.push_back(dim(*p));
    const bool reduces = group.results[0]->kind == PlacePattern::Kind::Partial;
    sketch.factor(from, to, reduces ? FactorKind::Reduction : FactorKind::PassThrough,
                  reduces ? group.results[0]->reduce : ReduceOp::Sum);
  }
}

// A function of one call, in which the operator is a custom call.
Graph graph_of_call(const std::string& name, const Sample& sample,
                    const std::vector<Array>& results) {
  Graph graph;
  const RegionId region = graph.add_region();
  std::vector<ValueId> operands;
  for (const TensorDesc& desc : sample.operands)
    operands.push_back(graph.add_argument(region, Type::tensor(desc.dtype, desc.shape), ""));
  std::vector<Type> types;
  for (const Array& result : results) types.push_back(Type::tensor(result.dtype(), result.shape()));
  AttrDict attrs = attr_dict_of(sample.attrs);
  attrs.set("call_target_name", string_attr(name));
  graph.append(region, graph.add_node("stablehlo.custom_call", operands, types, attrs));
  return graph;
}

}  // namespace

AttrMap attr_map_of(const AttrDict& attrs) {
  AttrMap map;
  for (const NamedAttribute& each : attrs.entries()) {
    if (const auto* flag = each.value.as<bool>()) {
      map.emplace(each.name, *flag);
    } else if (const auto* whole = each.value.as<IntegerAttr>()) {
      map.emplace(each.name, whole->value);
    } else if (const auto* real = each.value.as<FloatAttr>()) {
      map.emplace(each.name, real->value);
    } else if (const auto* text = each.value.as<StringAttr>()) {
      map.emplace(each.name, text->value);
    } else if (each.value.as<ArrayAttr>() || each.value.as<DenseArrayAttr>() ||
               each.value.as<ElementsAttr>()) {
      try {
        map.emplace(each.name, attrs.get_ints(each.name));
      } catch (const UserError&) {
        // A list of something else.
      }
    }
  }
  return map;
}

AttrDict attr_dict_of(const AttrMap& attrs) {
  AttrDict dict;
  for (const auto& [name, value] : attrs) {
    if (const auto* flag = std::get_if<bool>(&value))
      dict.set(name, *flag);
    else if (const auto* whole = std::get_if<int64_t>(&value))
      dict.set(name, int_attr(*whole));
    else if (const auto* real = std::get_if<double>(&value))
      dict.set(name, FloatAttr{*real, Type::scalar(DType::F64)});
    else if (const auto* text = std::get_if<std::string>(&value))
      dict.set(name, string_attr(*text));
    else
      dict.set(name, ints_attr(std::get<std::vector<int64_t>>(value)));
  }
  return dict;
}

RuleSource rule_of_discovery(const Discovery& found) {
  return [rules = found_rules(found)](const Graph& graph, const Node& node) {
    if (!rules->general) {
      const FoundRules::Call* like = call_like(*rules, graph, node);
      return like ? like->made.rule : RuleSketch(graph, node).build();
    }
    RuleSketch sketch(graph, node);
    const ConditionScope scope = scope_of(*rules, graph, node);
    for (const RuleGroup& group : rules->groups)
      if (group.is_factor() && group.operands.size() == node.operands.size() &&
          group.results.size() == node.results.size())
        add_factors(group, scope, graph, node, sketch);
    return sketch.build();
  };
}

PartialSource partial_of_discovery(const Discovery& found) {
  return [rules = found_rules(found)](const Graph& graph, const Node& node) {
    PartialTransfer rows;
    if (!rules->general) {
      if (const FoundRules::Call* like = call_like(*rules, graph, node)) rows = like->made.partial;
      return rows;
    }
    const ConditionScope scope = scope_of(*rules, graph, node);
    for (const RuleGroup& group : rules->groups)
      if (const auto row = group.row(); row && group.operands.size() == node.operands.size() &&
                                        condition_holds(group.condition, scope).value_or(false))
        rows.push_back(*row);
    return rows;
  };
}

void register_discovered(const std::string& name, const Operator& op, const Discovery& found,
                         bool replace) {
  register_op(name, {.kernel =
                         [run = op.run](const AttrDict& attrs, std::span<const Array> operands) {
                           return run(attr_map_of(attrs), operands);
                         },
                     .rule = rule_of_discovery(found),
                     .partial = partial_of_discovery(found),
                     .replace = replace});
}

void verify_rule(const Operator& op, const RuleSource& rule, const PartialSource& partial,
                 const DiscoverOptions& options) {
  for (const Sample& sample : op.samples) {
    std::vector<Array> zeros;
    for (const TensorDesc& desc : sample.operands)
      zeros.push_back(Array::zeros(desc.dtype, desc.shape));
    const std::vector<Array> results = op.run(sample.attrs, zeros);
    const Graph graph = graph_of_call(op.name, sample, results);
    const Node& node = graph.node(graph.region(RegionId{0}).nodes.front());
    const OpShardingRule claimed = rule.function()(graph, node);
    check_rule_fits(graph, node, claimed);
    const PartialTransfer rows =
        partial.function() ? partial.function()(graph, node) : PartialTransfer{};
    SampleDecisions decided{sample, {}, decide(op, sample, options)};
    for (const Array& result : results) decided.result_shapes.push_back(result.shape());
    const RuleDiff diff = diff_rule(claimed, rows, decided, options.worlds);
    if (diff.incorrect.empty()) continue;
    const Decision& wrong = diff.incorrect.front();
    const std::string why = wrong.verdict.witness ? short_text(shrink(op, *wrong.verdict.witness))
                                                  : wrong.verdict.reason;
    throw_user("{}: the rule {} is wrong: it says {} of ({}), and {}", op.name,
               to_short_string(claimed), to_string(wrong.combination), to_string(sample), why);
  }
}

}  // namespace cleave
