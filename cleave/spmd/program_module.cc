#include "cleave/spmd/program_module.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/builder.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/scalar_code.h"
#include "cleave/ops/custom_call/custom_call.h"
#include "cleave/ops/op.h"
#include "cleave/rewrite/simplify.h"
#include "cleave/spmd/cut_mesh.h"
#include "cleave/spmd/op_layouts.h"
#include "cleave/spmd/own_values.h"

namespace cleave {
namespace {

// Marks of Cleave's own passes, which no other reader knows.
void drop_own_attributes(Graph& graph) {
  auto drop = [](AttrDict& attrs) {
    std::vector<std::string> names;
    for (const NamedAttribute& attribute : attrs.entries())
      if (attribute.name.starts_with("cleave.")) names.push_back(attribute.name);
    for (const std::string& name : names) attrs.erase(name);
  };
  for (uint32_t i = 0; i < graph.num_nodes(); ++i) {
    Node& node = graph.node({i});
    if (!is<op::Rng>(node)) drop(node.attrs);  // which names its stream
    node.attrs.erase("sdy.sharding");
  }
  drop(graph.attrs);
  for (Function& function : graph.functions) {
    drop(function.attrs);
    for (AttrDict& attrs : function.arg_attrs) drop(attrs);
    for (AttrDict& attrs : function.result_attrs) drop(attrs);
  }
}

// The layout that XLA gives a collective spreads to the ops beside it, and XLA for CPUs has a
// Fourier transform in one layout alone: it compiles others and fails when it runs them.
void keep_layouts_of_transforms(Graph& graph) {
  GraphRewrite rewrite(graph);
  graph.walk([&](NodeId id) {
    if (!is<op::Fft>(graph.node(id)) || graph.result_type(graph.node(id)).rank() < 2) return;
    auto call = [&](ValueId value) {
      const Type type = graph.type(value);
      return graph.add_node("stablehlo.custom_call", {value}, {type},
                            dimensions_in_order(type.rank()));
    };
    const ValueId operand = graph.node(id).operands[0], result = graph.node(id).results[0];
    const NodeId before = call(operand), after = call(result);
    graph.node(id).operands[0] = graph.node(before).results[0];
    rewrite.insert_before(id, before);
    rewrite.insert_after(id, after);
    rewrite.replace_uses(result, graph.node(after).results[0], after);
  });
  rewrite.apply();
}

// The size of a dimension that its axes divide.
Shape even_shape(const ShardingSpec& spec, Shape shape) {
  for (size_t d = 0; spec.mesh && d < shape.size(); ++d) {
    const int64_t parts = total_size(spec.dims[d].axes);
    shape[d] = (shape[d] + parts - 1) / parts * parts;
  }
  return shape;
}

// A value without a layout is whole on every device.
ShardingSpec spec_of(const SingleProgram::Port& port, const MeshPtr& mesh) {
  if (port.layout.spec.mesh && !port.layout.spec.mesh->axes.empty()) {
    ShardingSpec spec = port.layout.spec;
    spec.replicated.clear();
    for (DimSpec& dim : spec.dims) dim = {dim.axes, false, std::nullopt};
    return spec;
  }
  return ShardingSpec::closed_replicated(mesh, port.whole.rank());
}

std::vector<ShardingSpec> specs_of(const std::vector<SingleProgram::Port>& ports,
                                   const MeshPtr& mesh, const char* what) {
  std::vector<ShardingSpec> specs;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!is_ranked_tensor(ports[i].whole))
      throw_user("a manual computation takes tensors; {} {} is {}", what, i,
                 to_string(ports[i].whole));
    specs.push_back(spec_of(ports[i], mesh));
    if (specs.back().is_partial())
      throw_user("{} {} is a pending reduction, which no caller can take; ask for it complete",
                 what, i);
  }
  return specs;
}

// Functions that ops name and do not call, such as the comparator of @ApproxTopK, and what those
// name.
void copy_named_functions(const Graph& from, Graph& to) {
  for (uint32_t i = 0; i < to.num_nodes(); ++i)
    for (const std::string& name : functions_named_by(to.node({i}))) {
      const Function* function = from.find_function(name);
      if (function && function->body.valid() && !to.find_function(name))
        Cloner(from, to).function(*function);
    }
}

}  // namespace

void require_same_numbers(const Graph& graph) {
  graph.walk([&](NodeId id) {
    if (is<op::Rng>(graph.node(id)))
      throw_user(
          "stablehlo.rng: XLA draws other numbers on each device, so that the parts of one tensor "
          "would not fit together; use stablehlo.rng_bit_generator");
  });
}

Graph spmd_module(const SingleProgram& program) {
  Graph graph = program.graph;
  drop_own_attributes(graph);
  keep_layouts_of_transforms(graph);
  graph.meshes.clear();
  graph.attrs.set("mhlo.num_partitions", int_attr(program.mesh->num_devices(), DType::I32));
  graph.attrs.set("mhlo.num_replicas", int_attr(1, DType::I32));
  Function& entry = *graph.find_function(program.entry);
  for (AttrDict& attrs : entry.arg_attrs) attrs.set("mhlo.sharding", string_attr("{manual}"));
  for (AttrDict& attrs : entry.result_attrs) attrs.set("mhlo.sharding", string_attr("{manual}"));
  return graph;
}

Graph manual_module(const SingleProgram& program) {
  Graph local = program.graph;
  drop_own_attributes(local);
  keep_layouts_of_transforms(local);
  inline_calls(local);
  std::vector<ShardingSpec> in = specs_of(program.arguments, program.mesh, "argument");
  std::vector<ShardingSpec> out = specs_of(program.results, program.mesh, "result");
  std::vector<ShardingSpec> all = in;
  all.insert(all.end(), out.begin(), out.end());
  Mesh named = *program.mesh;
  named.name = "mesh";
  const CutMesh cut(std::make_shared<const Mesh>(std::move(named)), all);
  for (ShardingSpec& spec : in) spec = cut.refined(spec);
  for (ShardingSpec& spec : out) spec = cut.refined(spec);

  Graph graph;
  graph.name = local.name;
  graph.attrs = local.attrs;
  graph.meshes = {cut.mesh()};
  const Function& entry = *local.find_function(program.entry);
  std::vector<Type> args;
  for (const SingleProgram::Port& port : program.arguments) args.push_back(port.whole);
  GraphBuilder b = GraphBuilder::function(graph, program.entry, args);
  OwnValues shapes(graph, program.mesh->num_devices());
  shapes.in(b.region());
  std::vector<ValueId> operands;
  for (size_t i = 0; i < args.size(); ++i)
    operands.push_back(shapes.fit(b.arg(i), even_shape(in[i], args[i].shape)));
  std::vector<Type> results;
  for (size_t i = 0; i < out.size(); ++i) {
    results.push_back(program.results[i].whole);
    results.back().shape = even_shape(out[i], results.back().shape);
  }
  std::vector<std::string> axes;
  for (const MeshAxis& axis : cut.mesh()->axes) axes.push_back(axis.name);
  AttrDict attrs;
  attrs.set("in_shardings", ShardingsAttr{in});
  attrs.set("out_shardings", ShardingsAttr{out});
  attrs.set("manual_axes", ManualAxesAttr{std::move(axes)});
  const NodeId manual =
      graph.add_node(op::ManualComputation::kName, operands, results, std::move(attrs));
  Cloner clone(local, graph);
  const RegionId body = graph.add_region(manual);
  clone.region(entry.body, body);
  const NodeId end = graph.terminator(body);
  graph.node(end).def = &op_named("sdy.return");
  graph.append(b.region(), manual);
  std::vector<ValueId> whole;
  for (size_t i = 0; i < out.size(); ++i)
    whole.push_back(shapes.fit(graph.node(manual).results[i], program.results[i].whole.shape));
  b.finish(std::move(whole));
  Function& main = graph.functions.back();
  main.visibility = entry.visibility;
  main.arg_attrs = entry.arg_attrs;
  main.result_attrs = entry.result_attrs;
  main.arg_attrs.resize(in.size());
  main.result_attrs.resize(out.size());
  for (size_t i = 0; i < in.size(); ++i) main.arg_attrs[i].set("sdy.sharding", ShardingAttr{in[i]});
  for (size_t i = 0; i < out.size(); ++i)
    main.result_attrs[i].set("sdy.sharding", ShardingAttr{out[i]});
  copy_named_functions(local, graph);
  return graph;
}

}  // namespace cleave
