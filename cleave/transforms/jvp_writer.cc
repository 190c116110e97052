#include "cleave/transforms/jvp_writer.h"

#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/op.h"
#include "cleave/transforms/scan_node.h"

namespace cleave {

void throw_no_rule(const Graph& graph, const Node& node, std::string_view which) {
  std::string op = node.name();
  if (is<op::CustomCall>(node)) op += " @" + std::string(node.attrs.get_string("call_target_name"));
  throw_user(
      "{}: has no {} derivative, and a derivative flows through its operands {}; stop it there "
      "(stop_gradient), or give the function around it one (custom_vjp)",
      op, which, operand_types_text(graph, node));
}

void JvpWriter::run(RegionId source, RegionId target) {
  const std::vector<NodeId> nodes = graph_.region(source).nodes;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) write(nodes[i], target);
}

ValueId JvpWriter::tangent_or_zeros(ValueId source, RegionId target) {
  if (const ValueId found = tangent[source]; found.valid()) return found;
  GraphBuilder b(graph_, target);
  const Type type = graph_.type(source);
  return b.constant(0, type.dtype, type.shape);
}

void JvpWriter::write(NodeId id, RegionId target) {
  const Node node = graph_.node(id);
  if (!active_.any_result(node)) {
    copy_closed(graph_, id, target, primal);
    return;
  }
  switch (flow_of(node)) {
    case Flow::Loop:
      return write_while(node, target);
    case Flow::Branches:
      return write_branches(node, target);
    case Flow::Scan:
      return write_scan(node, target);
    case Flow::Manual:
      return write_manual(node, target);
    case Flow::None:
    case Flow::Named:
    case Flow::Barrier:
    case Flow::Call:
      return write_by_rule(id, node, target);
  }
}

void JvpWriter::write_by_rule(NodeId id, const Node& node, RegionId target) {
  if (!node.def->jvp) throw_no_rule(graph_, node, "forward");
  copy_within(graph_, id, target, primal);
  const std::vector<ValueId> operands = primal.map(node.operands);
  const std::vector<ValueId> results = primal.map(node.results);
  std::vector<ValueId> tangents;
  for (ValueId operand : node.operands) tangents.push_back(tangent[operand]);
  GraphBuilder b(graph_, target);
  const std::vector<ValueId> made =
      node.def->jvp({.b = b, .node = node, .operands = operands, .results = results}, tangents);
  internal_check(made.size() == results.size(), "a forward rule gives one tangent per result");
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].valid()) continue;
    if (graph_.type(made[i]).shape != graph_.type(results[i]).shape ||
        graph_.type(made[i]).dtype != graph_.type(results[i]).dtype)
      throw InternalError(node.name() + ": the forward rule gives " +
                          to_string(graph_.type(made[i])) + " as the tangent of " +
                          to_string(graph_.type(results[i])));
    tangent.set(node.results[i], made[i]);
  }
}

void JvpWriter::add_args(const std::vector<ValueId>& args, RegionId region, bool tangents) {
  for (ValueId arg : args) {
    if (tangents && !active_(arg)) continue;
    const Value value = graph_.value(arg);
    (tangents ? tangent : primal).set(arg, graph_.add_argument(region, value.type));
  }
}

std::vector<ValueId> JvpWriter::with_tangents(const std::vector<ValueId>& values,
                                              const std::vector<ValueId>& active, RegionId target) {
  std::vector<ValueId> all = primal.map(values);
  for (size_t i = 0; i < values.size(); ++i)
    if (active_(active[i])) all.push_back(tangent_or_zeros(values[i], target));
  return all;
}

std::vector<Type> JvpWriter::with_tangent_types(const std::vector<ValueId>& values) const {
  std::vector<Type> types;
  for (ValueId value : values) types.push_back(graph_.type(value));
  for (ValueId value : values)
    if (active_(value)) types.push_back(graph_.type(value));
  return types;
}

void JvpWriter::bind_results(const Node& node, const std::vector<ValueId>& values, size_t plain) {
  size_t next = plain;
  for (size_t i = 0; i < node.results.size(); ++i) {
    primal.set(node.results[i], values[i]);
    if (active_(node.results[i])) tangent.set(node.results[i], values[next++]);
  }
}

void JvpWriter::write_while(const Node& node, RegionId target) {
  const std::vector<ValueId> operands = with_tangents(node.operands, node.results, target);
  const NodeId loop =
      graph_.add_node(node.name(), operands, with_tangent_types(node.results), node.attrs);
  for (size_t r = 0; r < 2; ++r) {
    const RegionId inner = graph_.add_region(loop);
    const std::vector<ValueId> args = graph_.region(node.regions[r]).args;
    add_args(args, inner, false);
    // The condition sees the tangents and does not look.
    for (size_t i = 0; i < args.size(); ++i) {
      if (!active_(node.results[i])) continue;
      const Type type = graph_.type(args[i]);
      const ValueId arg = graph_.add_argument(inner, type);
      if (r == 1) tangent.set(args[i], arg);
    }
    const std::vector<ValueId> returned = graph_.node(graph_.terminator(node.regions[r])).operands;
    if (r == 0) {
      const std::vector<NodeId> nodes = graph_.region(node.regions[0]).nodes;
      for (NodeId id : nodes) copy_closed(graph_, id, inner, primal);
    } else {
      run(node.regions[1], inner);
      std::vector<ValueId> all = with_tangents(returned, node.results, inner);
      end_region(graph_, inner, "stablehlo.return", std::move(all));
    }
  }
  graph_.append(target, loop);
  const std::vector<ValueId> results = graph_.node(loop).results;
  bind_results(node, results, node.results.size());
}

void JvpWriter::write_branches(const Node& node, RegionId target) {
  const NodeId branches = graph_.add_node(node.name(), primal.map(node.operands),
                                          with_tangent_types(node.results), node.attrs);
  for (RegionId branch : node.regions) {
    const RegionId inner = graph_.add_region(branches);
    const std::vector<ValueId> returned = graph_.node(graph_.terminator(branch)).operands;
    run(branch, inner);
    std::vector<ValueId> all = with_tangents(returned, node.results, inner);
    end_region(graph_, inner, "stablehlo.return", std::move(all));
  }
  graph_.append(target, branches);
  const std::vector<ValueId> results = graph_.node(branches).results;
  bind_results(node, results, node.results.size());
}

void JvpWriter::write_scan(const Node& node, RegionId target) {
  const ScanParts parts = scan_parts(node);
  const std::vector<ValueId> args = graph_.region(node.regions[0]).args;
  const std::vector<ValueId> out = graph_.node(graph_.terminator(node.regions[0])).operands;
  auto part = [](const std::vector<ValueId>& list, size_t begin, size_t end) {
    return std::vector<ValueId>(list.begin() + static_cast<ptrdiff_t>(begin),
                                list.begin() + static_cast<ptrdiff_t>(end));
  };
  const auto input_args = part(args, 0, parts.inputs);
  const auto carry_args = part(args, parts.inputs, args.size());
  const std::vector<ValueId> inputs =
      with_tangents(part(node.operands, 0, parts.inputs), input_args, target);
  const std::vector<ValueId> carries =
      with_tangents(part(node.operands, parts.inputs, args.size()), carry_args, target);
  const RegionId scratch = graph_.add_region();
  add_args(input_args, scratch, false);
  add_args(input_args, scratch, true);
  add_args(carry_args, scratch, false);
  add_args(carry_args, scratch, true);
  run(node.regions[0], scratch);
  ScanBody body;
  body.outputs =
      with_tangents(part(out, 0, parts.outputs), part(node.results, 0, parts.outputs), scratch);
  body.carries = with_tangents(part(out, parts.outputs, out.size()), carry_args, scratch);
  body.args = graph_.region(scratch).args;
  body.nodes = graph_.region(scratch).nodes;
  const size_t num_outputs = body.outputs.size();
  GraphBuilder b(graph_, target);
  const std::vector<ValueId> values = cleave::write_scan(b, inputs, carries, std::move(body),
                                                         node.attrs.get_bool("is_reverse", false));
  size_t next = parts.outputs;
  for (size_t i = 0; i < parts.outputs; ++i) {
    primal.set(node.results[i], values[i]);
    if (active_(node.results[i])) tangent.set(node.results[i], values[next++]);
  }
  next = num_outputs + parts.carries;
  for (size_t i = 0; i < parts.carries; ++i) {
    const ValueId result = node.results[parts.outputs + i];
    primal.set(result, values[num_outputs + i]);
    if (active_(carry_args[i])) tangent.set(result, values[next++]);
  }
}

void JvpWriter::write_manual(const Node& node, RegionId target) {
  const std::vector<ValueId> args = graph_.region(node.regions[0]).args;
  const std::vector<ValueId> out = graph_.node(graph_.terminator(node.regions[0])).operands;
  AttrDict attrs = node.attrs;
  auto with_tangent_specs = [&](const char* name, const std::vector<ValueId>& values) {
    ShardingsAttr specs = *attrs.find(name)->as<ShardingsAttr>();
    const std::vector<ShardingSpec> given = specs.specs;
    for (size_t i = 0; i < values.size(); ++i)
      if (active_(values[i])) specs.specs.push_back(given[i]);
    attrs.set(name, std::move(specs));
  };
  with_tangent_specs("in_shardings", args);
  with_tangent_specs("out_shardings", node.results);
  const NodeId manual = graph_.add_node(node.name(), with_tangents(node.operands, args, target),
                                        with_tangent_types(node.results), attrs);
  const RegionId inner = graph_.add_region(manual);
  add_args(args, inner, false);
  add_args(args, inner, true);
  run(node.regions[0], inner);
  std::vector<ValueId> all = with_tangents(out, node.results, inner);
  end_region(graph_, inner, "sdy.return", std::move(all));
  graph_.append(target, manual);
  const std::vector<ValueId> results = graph_.node(manual).results;
  bind_results(node, results, node.results.size());
}

}  // namespace cleave
