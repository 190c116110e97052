#include "cleave/plan/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/placement.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/names.h"

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

// The plan's mesh, with axes cut where arguments or results lie by parts of them: frameworks know
// whole axes alone, and a mesh of more axes over the same devices says the same.
//
//   <["data"=2, "model"=8]>, [{"model":(1)2}, {}]   ->   <["data"=2, "model_1"=2, "model_2"=4]>
class CutMesh {
 public:
  explicit CutMesh(const Plan& plan) : mesh_(*plan.mesh), cuts_(plan.mesh->axes.size()) {
    for (const std::vector<Named>& list : {arguments(plan), results(plan)})
      for (const Named& entry : list) note(*entry.spec);
    Mesh fine;
    fine.device_ids = mesh_.device_ids;
    for (size_t a = 0; a < cuts_.size(); ++a) {
      const MeshAxis& axis = mesh_.axes[a];
      cuts_[a].insert({1, axis.size});
      first_.push_back(static_cast<int32_t>(fine.axes.size()));
      if (cuts_[a].size() <= 2) {
        fine.axes.push_back(axis);
        continue;
      }
      for (auto cut = cuts_[a].begin(), next = std::next(cut); next != cuts_[a].end();
           ++cut, ++next) {
        if (*next % *cut != 0)
          throw_user(
              "the plan uses parts of \"{}\" that are not parts of one division of it ({} and {}), "
              "which a framework's mesh cannot say; plan without --sub-axes",
              axis.name, *cut, *next);
        fine.axes.push_back({free_name(axis.name, fine.axes.size() - first_[a] + 1), *next / *cut});
      }
    }
    fine_ = std::make_shared<const Mesh>(std::move(fine));
  }

  const Mesh& mesh() const { return *fine_; }

  ShardingSpec refined(const ShardingSpec& spec) const {
    if (!spec.mesh) return spec;
    ShardingSpec result = spec;
    result.mesh = fine_;
    result.replicated.clear();
    for (DimSpec& dim : result.dims) dim.axes = refined(dim.axes);
    result.partial = refined(result.partial);
    return result;
  }

  // "model=8 is model_1=2, model_2=4": a line for each axis that was cut.
  std::vector<std::string> notes() const {
    std::vector<std::string> lines;
    for (size_t a = 0; a < cuts_.size(); ++a) {
      if (cuts_[a].size() <= 2) continue;
      std::vector<std::string> parts;
      for (size_t i = 0; i + 1 < cuts_[a].size(); ++i) {
        const MeshAxis& part = fine_->axes[first_[a] + i];
        parts.push_back(fmt::format("{}={}", part.name, part.size));
      }
      lines.push_back(fmt::format("{}={} is {}", mesh_.axes[a].name, mesh_.axes[a].size,
                                  fmt::join(parts, ", ")));
    }
    return lines;
  }

 private:
  void note(const ShardingSpec& spec) {
    for (const DimSpec& dim : spec.dims)
      for (const AxisRef& ref : dim.axes) cuts_[ref.axis].insert({ref.pre, ref.next_pre()});
    for (const AxisRef& ref : spec.partial) cuts_[ref.axis].insert({ref.pre, ref.next_pre()});
  }

  std::string free_name(const std::string& axis, size_t number) const {
    std::string name = fmt::format("{}_{}", axis, number);
    while (mesh_.find_axis(name)) name += "_";
    return name;
  }

  AxisList refined(const AxisList& axes) const {
    AxisList result;
    for (const AxisRef& ref : axes) {
      int32_t index = first_[ref.axis];
      for (auto cut = cuts_[ref.axis].begin(); std::next(cut) != cuts_[ref.axis].end();
           ++cut, ++index)
        if (*cut >= ref.pre && *cut < ref.next_pre()) result.push_back(whole_axis(*fine_, index));
    }
    return result;
  }

  const Mesh& mesh_;
  std::vector<std::set<int64_t>> cuts_;  // by axis: where it is cut, 1 and its size included
  std::vector<int32_t> first_;           // by axis: its first part
  MeshPtr fine_;
};

// The spec in JAX's words; `left_out` says what it has no words for.
std::string partition_spec(const ShardingSpec& spec, const Shape& shape, std::string& left_out) {
  if (!spec.mesh) return "P()";
  std::vector<std::string> dims;
  for (size_t d = 0; d < spec.rank(); ++d) {
    const AxisList& axes = spec.dims[d].axes;
    std::vector<std::string> names;
    for (const AxisRef& ref : axes)
      names.push_back(fmt::format("\"{}\"", spec.mesh->axes[ref.axis].name));
    if (shape[d] % total_size(axes) != 0) {
      left_out += fmt::format("; dimension {} is planned as {{{}}}, {} over {} is uneven", d,
                              to_string(axes, *spec.mesh), shape[d], total_size(axes));
      names.clear();
    }
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

std::string to_jax(const Plan& plan, const Graph& graph) {
  const Function* function = graph.find_function(plan.entry);
  if (!function) throw_user("the module has no function @{}, which was planned", plan.entry);
  bind(plan, flatten(graph, plan.entry));  // to check that it fits
  std::string sizes, names;
  const CutMesh cut(plan);
  mesh_words(cut.mesh(), sizes, names);
  std::string text = "import jax\nfrom jax.sharding import AxisType, PartitionSpec as P\n\n";
  text += fmt::format("mesh = jax.make_mesh(({}), ({}), axis_types=(AxisType.Auto,) * {})\n", sizes,
                      names, cut.mesh().axes.size());
  for (const std::string& note : cut.notes()) text += "# " + note + "\n";
  auto list = [&](const char* what, const std::vector<Named>& entries,
                  const std::vector<Type>& types) {
    if (entries.size() != types.size())
      throw_user("the plan has {} {}, the module has {}: it is another one", entries.size(), what,
                 types.size());
    text += fmt::format("{} = (\n", what);
    for (size_t i = 0; i < entries.size(); ++i) {
      std::string left_out;
      const std::string spec =
          partition_spec(cut.refined(*entries[i].spec), types[i].shape, left_out);
      text += fmt::format("    {},  # {}{}\n", spec, entries[i].name, left_out);
    }
    text += ")\n";
  };
  list("in_specs", arguments(plan), function->arg_types);
  list("out_specs", results(plan), function->result_types);
  return text;
}

std::string to_dtensor(const Plan& plan) {
  std::string sizes, names;
  const CutMesh cut(plan);
  mesh_words(cut.mesh(), sizes, names);
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

}  // namespace cleave::plan
