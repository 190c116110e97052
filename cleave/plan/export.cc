#include "cleave/plan/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/core/placement.h"

namespace cleave::plan {
namespace {

struct Named {
  std::string name;
  const ShardingSpec* spec;
};

// Values that no op defines and no region of one: the arguments of the function.
std::vector<Named> arguments(const Plan& plan) {
  std::vector<Named> list;
  std::vector<std::string> ops;
  for (const PlannedOp& op : plan.ops) ops.push_back(op.name);
  std::sort(ops.begin(), ops.end());
  for (const PlannedValue& value : plan.values) {
    const std::string op = value.name.substr(0, value.name.find('#'));
    if (value.name.find('/') != std::string::npos) continue;
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

bool by_whole_axes(const ShardingSpec& spec) {
  for (const DimSpec& dim : spec.dims)
    for (const AxisRef& ref : dim.axes)
      if (!is_whole(ref, *spec.mesh)) return false;
  return true;
}

std::string partition_spec(const ShardingSpec& spec) {
  if (!spec.mesh) return "P()";
  if (!by_whole_axes(spec)) return "None";
  size_t rank = spec.rank();
  while (rank > 0 && spec.dims[rank - 1].axes.empty()) --rank;
  std::string text = "P(";
  for (size_t d = 0; d < rank; ++d) {
    const AxisList& axes = spec.dims[d].axes;
    std::string dim = axes.empty() ? "None" : "";
    for (const AxisRef& ref : axes)
      dim += fmt::format("{}\"{}\"", dim.empty() ? "" : ", ", spec.mesh->axes[ref.axis].name);
    if (axes.size() > 1) dim = "(" + dim + ")";
    text += (d ? ", " : "") + dim;
  }
  return text + ")";
}

std::string placements(const ShardingSpec& spec) {
  if (!spec.mesh) return "[]";
  if (!by_whole_axes(spec)) return "None";
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

void mesh_words(const Plan& plan, std::string& sizes, std::string& names) {
  for (const MeshAxis& axis : plan.mesh->axes) {
    sizes += fmt::format("{},", axis.size);
    names += fmt::format("\"{}\",", axis.name);
  }
}

}  // namespace

std::string to_jax(const Plan& plan) {
  std::string sizes, names;
  mesh_words(plan, sizes, names);
  std::string text = "import jax\nfrom jax.sharding import PartitionSpec as P\n\n";
  text += fmt::format("mesh = jax.make_mesh(({}), ({}))\n", sizes, names);
  for (const auto& [what, list] :
       {std::pair("in_specs", arguments(plan)), std::pair("out_specs", results(plan))}) {
    text += fmt::format("{} = (\n", what);
    for (const Named& entry : list) {
      const bool whole = !entry.spec->mesh || by_whole_axes(*entry.spec);
      text += fmt::format("    {},  # {}{}\n", partition_spec(*entry.spec), entry.name,
                          whole ? "" : ": parts of axes, " + to_string(*entry.spec));
    }
    text += ")\n";
  }
  return text;
}

std::string to_dtensor(const Plan& plan) {
  std::string sizes, names;
  mesh_words(plan, sizes, names);
  std::string text =
      "from torch.distributed.device_mesh import init_device_mesh\n"
      "from torch.distributed.tensor import Partial, Replicate, Shard\n"
      "from torch.distributed.tensor.placement_types import _StridedShard\n\n";
  text +=
      fmt::format("mesh = init_device_mesh(\"cuda\", ({}), mesh_dim_names=({}))\n", sizes, names);
  for (const auto& [what, list] :
       {std::pair("arguments", arguments(plan)), std::pair("results", results(plan))}) {
    text += fmt::format("{} = {{\n", what);
    for (const Named& entry : list)
      text += fmt::format("    \"{}\": {},\n", entry.name, placements(*entry.spec));
    text += "}\n";
  }
  return text;
}

}  // namespace cleave::plan
