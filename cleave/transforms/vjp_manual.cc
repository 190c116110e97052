#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/ops/expr.h"
#include "cleave/transforms/vjp_writer.h"

// The body of a manual computation runs on every device. An argument that is not split along a
// manual axis is one value seen by all devices along it: their cotangents are parts of a sum, and
// the result is partial there (a pending sum, which is completed when it is read). A
// result that is not split along a manual axis is the same on all devices along it, and is counted
// once: each gets its share of the cotangent.
namespace cleave {
namespace {

bool mentions(const AxisList& axes, size_t axis) {
  return std::ranges::any_of(
      axes, [&](const AxisRef& ref) { return static_cast<size_t>(ref.axis) == axis; });
}

// Manual axes along which the value is whole and complete.
std::vector<size_t> repeated_axes(const ShardingSpec& spec,
                                  const std::vector<std::string>& manual) {
  std::vector<size_t> axes;
  if (!spec.mesh) return axes;
  for (size_t a = 0; a < spec.mesh->axes.size(); ++a) {
    if (std::ranges::find(manual, spec.mesh->axes[a].name) == manual.end()) continue;
    bool used = mentions(spec.partial, a);
    for (const DimSpec& dim : spec.dims) used |= mentions(dim.axes, a);
    if (!used) axes.push_back(a);
  }
  return axes;
}

}  // namespace

void VjpWriter::backward_manual(const Node& node, RegionId target) {
  const std::vector<ShardingSpec> in = node.attrs.find("in_shardings")->as<ShardingsAttr>()->specs;
  const std::vector<ShardingSpec> out =
      node.attrs.find("out_shardings")->as<ShardingsAttr>()->specs;
  const std::vector<std::string> manual =
      node.attrs.find("manual_axes")->as<ManualAxesAttr>()->axes;
  const RegionId body = node.regions[0];
  const std::vector<ValueId> args = graph_.region(body).args;
  const std::vector<ValueId> returned = graph_.node(graph_.terminator(body)).operands;

  std::vector<ValueId> operands = primal.map(node.operands);
  ShardingsAttr back_in{in}, back_out;
  std::vector<size_t> incoming, outgoing;
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (!cotangent_[node.results[i]].valid()) continue;
    incoming.push_back(i);
    operands.push_back(cotangent_[node.results[i]]);
    ShardingSpec spec = out[i];
    spec.partial.clear();
    back_in.specs.push_back(std::move(spec));
  }
  std::vector<Type> types;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!active_(args[i])) continue;
    outgoing.push_back(i);
    types.push_back(graph_.type(node.operands[i]));
    ShardingSpec spec = in[i];
    if (!spec.partial.empty())
      throw_user("sdy.manual_computation: argument {} is partial; complete it before", i);
    for (size_t axis : repeated_axes(spec, manual)) {
      const Mesh& mesh = *spec.mesh;
      std::erase_if(spec.replicated,
                    [&](const AxisRef& ref) { return static_cast<size_t>(ref.axis) == axis; });
      spec.partial.push_back(whole_axis(mesh, mesh.axes[axis].name));
    }
    spec.partial_op = ReduceOp::Sum;
    back_out.specs.push_back(std::move(spec));
  }
  AttrDict attrs = node.attrs;
  attrs.erase("sdy.sharding");
  attrs.set("in_shardings", std::move(back_in));
  attrs.set("out_shardings", std::move(back_out));
  const NodeId back = graph_.add_node(node.name(), operands, std::move(types), std::move(attrs));
  const RegionId inner = graph_.add_region(back);
  for (ValueId arg : args) {
    const Type type = graph_.type(arg);
    primal.set(arg, graph_.add_argument(inner, type));
  }
  std::vector<ValueId> seeds;
  for (size_t i : incoming) {
    const Type type = graph_.type(returned[i]);
    seeds.push_back(graph_.add_argument(inner, type));
  }
  forward(body, inner);
  GraphBuilder b(graph_, inner);
  for (size_t k = 0; k < incoming.size(); ++k) {
    const size_t i = incoming[k];
    double copies = 1;
    for (size_t axis : repeated_axes(out[i], manual))
      copies *= static_cast<double>(out[i].mesh->axes[axis].size);
    const Expr seed = expr(b, seeds[k]);
    accumulate(returned[i], copies == 1 ? seed : seed / copies, inner);
  }
  backward(body, inner);
  std::vector<ValueId> results;
  for (size_t i : outgoing) results.push_back(cotangent_or_zeros(args[i], inner));
  end_region(graph_, inner, "sdy.return", std::move(results));
  graph_.append(target, back);
  const std::vector<ValueId> made = graph_.node(back).results;
  for (size_t k = 0; k < outgoing.size(); ++k)
    accumulate(node.operands[outgoing[k]], made[k], target);
}

}  // namespace cleave
