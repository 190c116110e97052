#include "cleave/plan/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/core/placement.h"
#include "cleave/graph/text/text.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/constraints.h"
#include "cleave/plan/names.h"
#include "cleave/spmd/cut_mesh.h"
#include "cleave/spmd/program_module.h"

namespace cleave::plan {
namespace {

struct Named {
  std::string name;
  const ShardingSpec* spec;
};

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}{}", fmt::join(parts, ", "), parts.size() == 1 ? "," : "");
}

// Values that no op defines and no region of one: the arguments of the function.
std::vector<Named> arguments(const Plan& plan) {
  std::vector<Named> list;
  std::vector<std::string> ops;
  for (const PlannedOp& op : plan.ops) ops.push_back(op.name);
  std::sort(ops.begin(), ops.end());
  for (const PlannedValue& value : plan.values) {
    const std::string op = value.name.substr(0, value.name.find_first_of("#/"));
    if (std::binary_search(ops.begin(), ops.end(), op)) continue;
    list.push_back({value.name, &value.spec});
  }
  return list;
}

std::vector<Named> results(const Plan& plan) {
  std::vector<Named> list;
  const PlannedOp* end = plan.find_op("return");
  if (!end) throw_user("plan: there is no op return");
  for (size_t i = 0; i < end->operands.size(); ++i)
    list.push_back({fmt::format("result{}", i), &end->operands[i].spec});
  return list;
}

// The plan's mesh, with axes cut where arguments or results lie by parts of them.
CutMesh cut_mesh_of(const Plan& plan) {
  std::vector<ShardingSpec> specs;
  for (const std::vector<Named>& list : {arguments(plan), results(plan)})
    for (const Named& entry : list) specs.push_back(*entry.spec);
  return CutMesh(plan.mesh, specs);
}

BorderLayout border_layout(std::string name, ShardingSpec spec, const Shape& shape) {
  BorderLayout border{std::move(name), spec, std::move(spec), {}};
  if (!border.spec.mesh) return border;
  for (size_t d = 0; d < border.spec.rank(); ++d) {
    AxisList& axes = border.spec.dims[d].axes;
    if (shape[d] % total_size(axes) == 0) continue;
    border.uneven += fmt::format("; dimension {} is planned as {{{}}}, {} over {} is uneven", d,
                                 to_string(axes, *border.spec.mesh), shape[d], total_size(axes));
    axes.clear();
  }
  return border;
}

std::string partition_spec(const ShardingSpec& spec) {
  if (!spec.mesh) return "P()";
  std::vector<std::string> dims;
  for (const DimSpec& dim : spec.dims) {
    std::vector<std::string> names;
    for (const AxisRef& ref : dim.axes)
      names.push_back(fmt::format("\"{}\"", spec.mesh->axes[ref.axis].name));
    dims.push_back(names.empty()       ? "None"
                   : names.size() == 1 ? names[0]
                                       : "(" + joined(names) + ")");
  }
  while (!dims.empty() && dims.back() == "None") dims.pop_back();
  return fmt::format("P({})", fmt::join(dims, ", "));
}

std::string placements(const ShardingSpec& spec) {
  if (!spec.mesh) return "[]";
  std::string text;
  for (const Placement& p : to_placements(spec)) {
    if (!text.empty()) text += ", ";
    switch (p.kind) {
      case Placement::Kind::Replicate:
        text += "Replicate()";
        break;
      case Placement::Kind::Shard:
        text += fmt::format("Shard({})", p.dim);
        break;
      case Placement::Kind::StridedShard:
        text += fmt::format("_StridedShard({}, split_factor={})", p.dim, p.split_factor);
        break;
      case Placement::Kind::Partial:
        text += fmt::format("Partial(\"{}\")", name(p.reduce));
        break;
    }
  }
  return "[" + text + "]";
}

void mesh_words(const Mesh& mesh, std::string& sizes, std::string& names) {
  std::vector<std::string> size_words, name_words;
  for (const MeshAxis& axis : mesh.axes) {
    size_words.push_back(std::to_string(axis.size));
    name_words.push_back(fmt::format("\"{}\"", axis.name));
  }
  sizes = joined(size_words);
  names = joined(name_words);
}

}  // namespace

BorderLayouts border_layouts(const Plan& plan, const Graph& graph) {
  const Function* function = graph.find_function(plan.entry);
  if (!function) throw_user("the module has no function @{}, which was planned", plan.entry);
  bind(plan, flatten(graph, plan.entry));  // to check that it fits
  const CutMesh cut = cut_mesh_of(plan);
  BorderLayouts borders{cut.mesh(), cut.notes(), {}, {}};
  auto take = [&](const char* what, const std::vector<Named>& entries,
                  const std::vector<Type>& types, std::vector<BorderLayout>& list) {
    if (entries.size() != types.size())
      throw_user("the plan has {} {}, the module has {}: it is another one", entries.size(), what,
                 types.size());
    for (size_t i = 0; i < entries.size(); ++i)
      list.push_back(border_layout(entries[i].name, cut.refined(*entries[i].spec), types[i].shape));
  };
  take("arguments", arguments(plan), function->arg_types, borders.arguments);
  take("results", results(plan), function->result_types, borders.results);
  return borders;
}

std::string to_jax(const Plan& plan, const Graph& graph) {
  const BorderLayouts borders = border_layouts(plan, graph);
  std::string sizes, names;
  mesh_words(*borders.mesh, sizes, names);
  std::string text = "import jax\nfrom jax.sharding import AxisType, PartitionSpec as P\n\n";
  text += fmt::format("mesh = jax.make_mesh(({}), ({}), axis_types=(AxisType.Auto,) * {})\n", sizes,
                      names, borders.mesh->axes.size());
  for (const std::string& note : borders.notes) text += "# " + note + "\n";
  auto list = [&](const char* what, const std::vector<BorderLayout>& entries) {
    text += fmt::format("{} = (\n", what);
    for (const BorderLayout& entry : entries)
      text +=
          fmt::format("    {},  # {}{}\n", partition_spec(entry.spec), entry.name, entry.uneven);
    text += ")\n";
  };
  list("in_specs", borders.arguments);
  list("out_specs", borders.results);
  return text;
}

std::string to_dtensor(const Plan& plan) {
  std::string sizes, names;
  const CutMesh cut = cut_mesh_of(plan);
  mesh_words(*cut.mesh(), sizes, names);
  std::string text =
      "from torch.distributed.device_mesh import init_device_mesh\n"
      "from torch.distributed.tensor import Partial, Replicate, Shard\n"
      "from torch.distributed.tensor.placement_types import _StridedShard\n\n";
  text +=
      fmt::format("mesh = init_device_mesh(\"cuda\", ({}), mesh_dim_names=({}))\n", sizes, names);
  for (const std::string& note : cut.notes()) text += "# " + note + "\n";
  for (const auto& [what, list] :
       {std::pair("arguments", arguments(plan)), std::pair("results", results(plan))}) {
    text += fmt::format("{} = {{\n", what);
    for (const Named& entry : list)
      text += fmt::format("    \"{}\": {},\n", entry.name, placements(cut.refined(*entry.spec)));
    text += "}\n";
  }
  return text;
}

std::string export_as(std::string_view form, const Plan& plan, const Graph& graph,
                      const MachineProfile& profile) {
  if (form == "manual" || form == "spmd") {
    const MachineProfile shared = shared_by(profile, plan.mesh->num_devices());
    const SingleProgram program = single_program(partition_planned(plan, graph, shared));
    require_same_numbers(program.graph);
    return print_module(form == "manual" ? manual_module(program) : spmd_module(program));
  }
  if (form == "sdy") return print_module(apply(plan, graph));
  if (form == "constraints") return print_module(with_constraints(plan, graph));
  if (form == "jax") return to_jax(plan, graph);
  if (form == "dtensor") return to_dtensor(plan);
  throw_user("the form {}: there are manual, constraints, spmd, sdy, jax and dtensor", form);
}

}  // namespace cleave::plan
