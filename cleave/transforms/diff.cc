#include "cleave/transforms/diff.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/verify.h"
#include "cleave/ops/expr.h"
#include "cleave/transforms/jvp_writer.h"
#include "cleave/transforms/prepare.h"
#include "cleave/transforms/scan_node.h"
#include "cleave/transforms/vjp_writer.h"

namespace cleave {
namespace {

const Function& function_of(const Graph& graph, std::string_view name) {
  const Function* function = graph.find_function(name);
  if (!function || !function->body.valid())
    throw_user("there is no function @{} with a body to differentiate", name);
  return *function;
}

std::string unique_name(const Graph& graph, const DiffOptions& options, std::string_view function,
                        const char* suffix) {
  std::string base = options.name.empty() ? std::string(function) + suffix : options.name;
  std::string name = base;
  for (int i = 0; graph.find_function(name); ++i) name = base + "_" + std::to_string(i);
  return name;
}

// Only what says how a value lies on the devices belongs to its derivative too.
AttrDict sharding_of(const AttrDict& attrs) {
  AttrDict result;
  if (const Attribute* sharding = attrs.find("sdy.sharding")) result.set("sdy.sharding", *sharding);
  return result;
}

// Checkpoints have done their work; what is left are their bodies.
void lower_checkpoints(Graph& graph, RegionId region) {
  const std::vector<NodeId> nodes = graph.region(region).nodes;
  for (NodeId id : nodes) {
    const Node node = graph.node(id);
    for (RegionId inner : node.regions) lower_checkpoints(graph, inner);
    if (!is_named(node, kCheckpoint) && !is_named(node, kKeep)) continue;
    const Region body = graph.region(node.regions[0]);
    ValueTable table;
    for (size_t i = 0; i < body.args.size(); ++i) table.set(body.args[i], node.operands[i]);
    for (size_t i = 0; i + 1 < body.nodes.size(); ++i) {
      replace_operands(graph, body.nodes[i], table);
      graph.insert_before(id, body.nodes[i]);
    }
    const std::vector<ValueId> out = table.map(graph.node(body.nodes.back()).operands);
    graph.remove(id);
    for (size_t i = 0; i < out.size(); ++i) graph.replace_all_uses(node.results[i], out[i]);
  }
}

std::string reverse(Graph& graph, std::string_view name, const DiffOptions& options,
                    const char* suffix, bool seeded, bool keep_results) {
  if (!options.verified) verify_graph(graph);
  const std::vector<size_t> wanted = differentiated_args(graph, name, options);
  const Function source = function_of(graph, name);
  if (seeded && (source.result_types.empty() || source.result_types[0].rank() != 0 ||
                 !is_float(source.result_types[0].dtype)))
    throw_user(
        "grad: the first result must be one real number, tensor<f32> or the like, and is {}; use "
        "vjp for others",
        source.result_types.empty() ? "missing" : to_string(source.result_types[0]));
  const RegionId region = prepare(graph, name, wanted, DiffMode::Reverse);
  const std::vector<ValueId> args = graph.region(region).args;
  std::vector<ValueId> seeds;
  for (size_t i : wanted) seeds.push_back(args[i]);
  const Activity active(graph, region, seeds);

  std::vector<Type> types = source.arg_types;
  std::vector<AttrDict> arg_attrs = source.arg_attrs;
  arg_attrs.resize(types.size());
  std::vector<size_t> cotangents;  // results that have one
  for (size_t i = 0; i < source.result_types.size(); ++i) {
    if (!is_differentiable(source.result_types[i]) || seeded) continue;
    cotangents.push_back(i);
    types.push_back(source.result_types[i]);
    arg_attrs.push_back(i < source.result_attrs.size() ? sharding_of(source.result_attrs[i])
                                                       : AttrDict{});
  }
  const std::string made = unique_name(graph, options, name, suffix);
  GraphBuilder b = GraphBuilder::function(graph, made, types);
  const size_t place = graph.functions.size() - 1;
  graph.functions[place].arg_attrs = arg_attrs;
  VjpWriter writer(graph, active);
  for (size_t i = 0; i < args.size(); ++i) {
    writer.primal.set(args[i], b.arg(i));
    if (const std::string& hint = graph.value(args[i]).name; !hint.empty())
      graph.value(b.arg(i)).name = hint;
  }
  writer.forward(region, b.region());
  const std::vector<ValueId> returned = graph.node(graph.terminator(region)).operands;
  if (seeded) {
    writer.accumulate(returned[0], b.constant(1, b.dtype(returned[0])), b.region());
  } else {
    for (size_t k = 0; k < cotangents.size(); ++k)
      writer.accumulate(returned[cotangents[k]], b.arg(args.size() + k), b.region());
  }
  writer.backward(region, b.region());
  std::vector<ValueId> results;
  std::vector<AttrDict> result_attrs;
  if (keep_results) {
    results = writer.primal.map(returned);
    result_attrs = source.result_attrs;
    result_attrs.resize(results.size());
  }
  for (size_t i : wanted) {
    results.push_back(writer.cotangent_or_zeros(args[i], b.region()));
    result_attrs.push_back(i < source.arg_attrs.size() ? sharding_of(source.arg_attrs[i])
                                                       : AttrDict{});
  }
  b.finish(results);
  graph.functions[place].result_attrs = std::move(result_attrs);
  lower_checkpoints(graph, b.region());
  return made;
}

}  // namespace

std::vector<size_t> differentiated_args(const Graph& graph, std::string_view name,
                                        const DiffOptions& options) {
  const Function& function = function_of(graph, name);
  std::vector<size_t> args = options.args;
  if (args.empty())
    for (size_t i = 0; i < function.arg_types.size(); ++i)
      if (is_differentiable(function.arg_types[i])) args.push_back(i);
  for (size_t i : args) {
    if (i >= function.arg_types.size())
      throw_user("@{} has {} arguments, and none with number {}", name, function.arg_types.size(),
                 i);
    if (!is_differentiable(function.arg_types[i]))
      throw_user("argument {} of @{} is {}, which has no derivative; list others", i, name,
                 to_string(function.arg_types[i]));
  }
  return args;
}

std::string jvp(Graph& graph, std::string_view name, const DiffOptions& options) {
  if (!options.verified) verify_graph(graph);
  const std::vector<size_t> wanted = differentiated_args(graph, name, options);
  const Function source = function_of(graph, name);
  const RegionId region = prepare(graph, name, wanted, DiffMode::Forward);
  const std::vector<ValueId> args = graph.region(region).args;
  std::vector<ValueId> seeds;
  std::vector<Type> types = source.arg_types;
  std::vector<AttrDict> arg_attrs = source.arg_attrs;
  arg_attrs.resize(types.size());
  for (size_t i : wanted) {
    seeds.push_back(args[i]);
    types.push_back(source.arg_types[i]);
    arg_attrs.push_back(sharding_of(arg_attrs[i]));
  }
  const Activity active(graph, region, seeds);
  const std::string made = unique_name(graph, options, name, "_jvp");
  GraphBuilder b = GraphBuilder::function(graph, made, types);
  const size_t place = graph.functions.size() - 1;
  graph.functions[place].arg_attrs = arg_attrs;
  JvpWriter writer(graph, active);
  for (size_t i = 0; i < args.size(); ++i) writer.primal.set(args[i], b.arg(i));
  for (size_t k = 0; k < wanted.size(); ++k)
    writer.tangent.set(args[wanted[k]], b.arg(args.size() + k));
  writer.run(region, b.region());
  const std::vector<ValueId> returned = graph.node(graph.terminator(region)).operands;
  std::vector<ValueId> results = writer.primal.map(returned);
  std::vector<AttrDict> result_attrs = source.result_attrs;
  result_attrs.resize(results.size());
  for (size_t i = 0; i < returned.size(); ++i) {
    if (!is_differentiable(graph.type(returned[i]))) continue;
    results.push_back(writer.tangent_or_zeros(returned[i], b.region()));
    result_attrs.push_back(sharding_of(result_attrs[i]));
  }
  b.finish(results);
  graph.functions[place].result_attrs = std::move(result_attrs);
  return made;
}

std::string vjp(Graph& graph, std::string_view function, const DiffOptions& options) {
  return reverse(graph, function, options, "_vjp", false, true);
}
std::string grad(Graph& graph, std::string_view function, const DiffOptions& options) {
  return reverse(graph, function, options, "_grad", true, false);
}
std::string value_and_grad(Graph& graph, std::string_view function, const DiffOptions& options) {
  return reverse(graph, function, options, "_value_and_grad", true, true);
}

}  // namespace cleave
