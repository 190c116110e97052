#include <algorithm>

#include "cleave/ops/batch_util.h"
#include "cleave/ops/control/family.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

bool is_tensor(const BatchContext& c, ValueId value) { return c.b.type(value).is_tensor(); }

// pred ? a : b by example; pred is [examples], a and b have them in front.
ValueId select_examples(const BatchContext& c, GraphBuilder& b, ValueId pred, ValueId a,
                        ValueId other) {
  if (!is_tensor(c, a)) return a;
  const Shape shape = b.shape(a);
  const ValueId mask = shape.size() == 1 ? pred : b.broadcast(pred, shape, {0});
  return b.emit("stablehlo.select", {mask, a, other});
}

BatchContext inside(const BatchContext& c, GraphBuilder& b) {
  return {b, c.node, c.operands, c.size, c.transform};
}

std::vector<Batched> region_args(const BatchContext& c, RegionId region,
                                 const std::vector<Type>& types, const std::vector<bool>& batched,
                                 const std::vector<int64_t>& dims) {
  std::vector<Batched> args;
  for (size_t i = 0; i < types.size(); ++i) {
    const Type type = batched[i] ? with_dim(types[i], dims[i], c.size) : types[i];
    args.push_back({c.b.graph().add_argument(region, type), batched[i] ? dims[i] : Batched::kNone});
  }
  return args;
}

// ---- while ----

std::vector<Type> carried_types(const BatchContext& c) {
  std::vector<Type> types;
  for (size_t i = 0; i < c.operands.size(); ++i) types.push_back(operand_type(c, i));
  return types;
}

// Every example has a condition of its own: the loop runs until the last one is done, and those
// that are done keep their values. The conditions are carried, so that each is computed once.
std::vector<Batched> while_any(const BatchContext& c) {
  std::vector<ValueId> inits;
  std::vector<Batched> start;
  for (const Batched& operand : c.operands) {
    const bool moves = is_tensor(c, operand.value);
    inits.push_back(moves ? at_front(c, operand) : operand.value);
    start.push_back({inits.back(), moves ? 0 : Batched::kNone});
  }
  auto as_batched = [&](std::span<const ValueId> values) {
    std::vector<Batched> batched;
    for (size_t i = 0; i < start.size(); ++i) batched.push_back({values[i], start[i].dim});
    return batched;
  };
  auto conditions = [&](GraphBuilder& b, std::span<const Batched> values) {
    return at_front(inside(c, b), c.transform.inline_region(b, c.node.regions[0], values)[0]);
  };
  inits.push_back(conditions(c.b, start));
  auto any = [](GraphBuilder& b, std::span<const ValueId> values) {
    return b.reduce(values.back(), "stablehlo.or", 0, {0});
  };
  auto step = [&](GraphBuilder& b, std::span<const ValueId> values) {
    const std::vector<Batched> next =
        c.transform.inline_region(b, c.node.regions[1], as_batched(values));
    std::vector<ValueId> results;
    for (size_t i = 0; i < next.size(); ++i)
      results.push_back(
          is_tensor(c, next[i].value)
              ? select_examples(c, b, values.back(), at_front(inside(c, b), next[i]), values[i])
              : next[i].value);
    // Of an example that is done, the condition is not asked again.
    const ValueId more = conditions(b, as_batched(results));
    results.push_back(b.emit("stablehlo.and", {values.back(), more}));
    return results;
  };
  std::vector<ValueId> results = emit_while(c.b, std::move(inits), any, step);
  results.pop_back();
  return as_batched(results);
}

// What is carried becomes batched where the body makes it so; one condition for all examples keeps
// the loop as it is.
std::vector<Batched> batch_while(const BatchContext& c) {
  Graph& graph = c.b.graph();
  const std::vector<Type> types = carried_types(c);
  const std::vector<int64_t> front(types.size(), 0);
  std::vector<bool> batched;
  for (const Batched& operand : c.operands) batched.push_back(operand.batched());
  while (true) {
    std::vector<Type> now = types;
    for (size_t i = 0; i < now.size(); ++i)
      if (batched[i]) now[i] = with_dim(now[i], 0, c.size);
    const NodeId node =
        graph.add_node("stablehlo.while", std::vector<ValueId>{}, now, c.node.attrs);
    GraphBuilder test(graph, graph.add_region(node));
    const Batched more = c.transform.inline_region(
        test, c.node.regions[0], region_args(c, test.region(), types, batched, front))[0];
    if (more.batched()) return while_any(c);
    test.finish({more.value});
    GraphBuilder step(graph, graph.add_region(node));
    const std::vector<Batched> next = c.transform.inline_region(
        step, c.node.regions[1], region_args(c, step.region(), types, batched, front));
    bool grown = false;
    for (size_t i = 0; i < next.size(); ++i)
      if (next[i].batched() && !batched[i]) batched[i] = grown = true;
    if (grown) continue;
    std::vector<ValueId> returned, operands;
    for (size_t i = 0; i < next.size(); ++i) {
      returned.push_back(batched[i] ? at_front(inside(c, step), next[i]) : next[i].value);
      operands.push_back(batched[i] ? at_front(c, c.operands[i]) : c.operands[i].value);
    }
    step.finish(std::move(returned));
    graph.node(node).operands = std::move(operands);
    graph.node(node).attrs.erase("sdy.sharding");
    graph.append(c.b.region(), node);
    std::vector<Batched> results;
    for (size_t i = 0; i < next.size(); ++i)
      results.push_back({graph.node(node).results[i], batched[i] ? 0 : Batched::kNone});
    return results;
  }
}

// ---- case, if ----

// Every example has a choice of its own: all branches run, and each takes what it chose.
std::vector<Batched> choose_examples(const BatchContext& c) {
  GraphBuilder& b = c.b;
  const ValueId choice = at_front(c, c.operands[0]);
  std::vector<std::vector<Batched>> branches;
  for (RegionId region : c.node.regions)
    branches.push_back(c.transform.inline_region(b, region, {}));
  const bool is_if = c.node.name() == "stablehlo.if";
  std::vector<Batched> results;
  for (size_t i = 0; i < c.node.results.size(); ++i) {
    if (!result_type(c, i).is_tensor()) {
      results.push_back(branches.back()[i]);
      continue;
    }
    // Anything outside of the branches takes the last one.
    ValueId value = at_front(c, branches.back()[i]);
    for (size_t k = branches.size() - 1; k-- > 0;) {
      const ValueId mine =
          is_if ? choice
                : b.compare("EQ", choice, b.constant(static_cast<double>(k), DType::I32, {c.size}));
      value = select_examples(c, b, mine, at_front(c, branches[k][i]), value);
    }
    results.push_back({value, 0});
  }
  return results;
}

std::vector<Batched> batch_branches(const BatchContext& c) {
  if (c.operands[0].batched()) return choose_examples(c);
  Graph& graph = c.b.graph();
  // The types of results follow from the branches, which need a node to belong to.
  const NodeId holder = graph.add_node(c.node.name(), std::vector<ValueId>{}, {});
  std::vector<GraphBuilder> builders;
  std::vector<std::vector<Batched>> branches;
  std::vector<bool> batched(c.node.results.size());
  for (RegionId region : c.node.regions) {
    builders.emplace_back(graph, graph.add_region(holder));
    branches.push_back(c.transform.inline_region(builders.back(), region, {}));
    for (size_t i = 0; i < batched.size(); ++i)
      if (branches.back()[i].batched()) batched[i] = true;
  }
  std::vector<Type> types;
  for (size_t i = 0; i < batched.size(); ++i)
    types.push_back(batched[i] ? with_dim(result_type(c, i), 0, c.size) : result_type(c, i));
  const NodeId node =
      graph.add_node(c.node.name(), {c.operands[0].value}, std::move(types), c.node.attrs);
  graph.node(node).attrs.erase("sdy.sharding");
  graph.node(node).regions = graph.node(holder).regions;
  graph.node(holder).regions.clear();
  for (size_t k = 0; k < branches.size(); ++k) {
    graph.region(builders[k].region()).owner = node;
    std::vector<ValueId> returned;
    for (size_t i = 0; i < batched.size(); ++i)
      returned.push_back(batched[i] ? at_front(inside(c, builders[k]), branches[k][i])
                                    : branches[k][i].value);
    builders[k].finish(std::move(returned));
  }
  graph.append(c.b.region(), node);
  std::vector<Batched> results;
  for (size_t i = 0; i < batched.size(); ++i)
    results.push_back({graph.node(node).results[i], batched[i] ? 0 : Batched::kNone});
  return results;
}

// ---- scan: examples stand last, so that the scanned dimension stays where it is ----

std::vector<Batched> batch_scan(const BatchContext& c) {
  Graph& graph = c.b.graph();
  const Region body = graph.region(c.node.regions[0]);
  const std::vector<int64_t> segments = c.node.attrs.get_ints_or_empty("operandSegmentSizes");
  const size_t inputs =
      segments.size() == 2 ? static_cast<size_t>(segments[0]) : c.operands.size() / 2;
  const size_t outputs = c.node.results.size() - (c.operands.size() - inputs);
  std::vector<Type> types;
  std::vector<int64_t> last;
  std::vector<bool> batched;
  for (size_t i = 0; i < body.args.size(); ++i) {
    types.push_back(graph.type(body.args[i]));
    last.push_back(static_cast<int64_t>(types.back().rank()));
    batched.push_back(c.operands[i].batched());
  }
  while (true) {
    const NodeId holder = graph.add_node(c.node.name(), std::vector<ValueId>{}, {});
    GraphBuilder step(graph, graph.add_region(holder));
    const std::vector<Batched> next = c.transform.inline_region(
        step, c.node.regions[0], region_args(c, step.region(), types, batched, last));
    bool grown = false;
    for (size_t i = outputs; i < next.size(); ++i) {
      const size_t carry = inputs + i - outputs;
      if (next[i].batched() && !batched[carry]) batched[carry] = grown = true;
    }
    if (grown) continue;
    std::vector<ValueId> operands, returned;
    std::vector<Type> result_types;
    std::vector<int64_t> dims;
    for (size_t i = 0; i < c.operands.size(); ++i) {
      const auto end = static_cast<int64_t>(operand_type(c, i).rank());
      operands.push_back(batched[i] ? batched_at(c, c.operands[i], end) : c.operands[i].value);
    }
    for (size_t i = 0; i < next.size(); ++i) {
      const bool whole = i < outputs ? next[i].batched() : batched[inputs + i - outputs];
      const Type& type = result_type(c, i);
      const auto end = static_cast<int64_t>(type.rank());
      const auto slice_end =
          static_cast<int64_t>(step.shape(next[i].value).size()) - next[i].batched();
      returned.push_back(whole ? batched_at(inside(c, step), next[i], slice_end) : next[i].value);
      result_types.push_back(whole ? with_dim(type, end, c.size) : type);
      dims.push_back(whole ? end : Batched::kNone);
    }
    step.finish(std::move(returned));
    const NodeId node =
        graph.add_node(c.node.name(), std::move(operands), std::move(result_types), c.node.attrs);
    graph.node(node).attrs.erase("sdy.sharding");
    graph.node(node).regions = {step.region()};
    graph.node(holder).regions.clear();
    graph.region(step.region()).owner = node;
    graph.append(c.b.region(), node);
    std::vector<Batched> results;
    for (size_t i = 0; i < dims.size(); ++i)
      results.push_back({graph.node(node).results[i], dims[i]});
    return results;
  }
}

// ---- calls ----

std::vector<Batched> call_batched(const BatchContext& c, std::string_view callee) {
  std::vector<int64_t> in_dims;
  std::vector<ValueId> operands;
  for (const Batched& operand : c.operands) {
    in_dims.push_back(operand.dim);
    operands.push_back(operand.value);
  }
  const BatchedFunction function = c.transform.batch_function(callee, std::move(in_dims));
  AttrDict attrs;
  attrs.set("callee", SymbolRefAttr{function.name, {}});
  const std::vector<ValueId> values =
      c.b.emit_all("func.call", std::move(operands), std::move(attrs));
  std::vector<Batched> results;
  for (size_t i = 0; i < values.size(); ++i) results.push_back({values[i], function.out_dims[i]});
  return results;
}

std::vector<Batched> batch_call(const BatchContext& c) {
  return call_batched(c, c.node.attrs.get_string("callee"));
}
// The name of a composite speaks of its decomposition on one example: what is left is a call.
std::vector<Batched> batch_composite(const BatchContext& c) {
  return call_batched(c, c.node.attrs.get_string("decomposition"));
}

// ---- tuples: every element has its examples in front ----

std::vector<Batched> batch_tuple(const BatchContext& c) {
  return {{c.b.emit("stablehlo.tuple", all_at_front(c)), 0}};
}
std::vector<Batched> batch_get_tuple_element(const BatchContext& c) {
  return emit_self(c, {c.operands[0].value}, c.node.attrs);
}

}  // namespace

void add_control_flow_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.while", batch_while);
  add("stablehlo.case", batch_branches);
  add("stablehlo.if", batch_branches);
  add("chlo.scan", batch_scan);
  add("func.call", batch_call);
  add("stablehlo.composite", batch_composite);
  add("stablehlo.tuple", batch_tuple);
  add("stablehlo.get_tuple_element", batch_get_tuple_element);
}

}  // namespace cleave
