#include "cleave/spmd/cut_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "cleave/core/error.h"

namespace cleave {

CutMesh::CutMesh(MeshPtr mesh, std::span<const ShardingSpec> specs)
    : mesh_(std::move(mesh)), cuts_(mesh_->axes.size()) {
  for (const ShardingSpec& spec : specs) {
    for (const DimSpec& dim : spec.dims) note(dim.axes);
    note(spec.partial);
  }
  Mesh fine;
  fine.device_ids = mesh_->device_ids;
  fine.name = mesh_->name;
  for (size_t a = 0; a < cuts_.size(); ++a) {
    const MeshAxis& axis = mesh_->axes[a];
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
      const size_t number = fine.axes.size() - static_cast<size_t>(first_[a]) + 1;
      fine.axes.push_back({free_name(axis.name, number), *next / *cut});
    }
  }
  fine_ = std::make_shared<const Mesh>(std::move(fine));
}

ShardingSpec CutMesh::refined(const ShardingSpec& spec) const {
  if (!spec.mesh) return spec;
  ShardingSpec result = spec;
  result.mesh = fine_;
  result.replicated.clear();
  for (DimSpec& dim : result.dims) dim.axes = refined(dim.axes);
  result.partial = refined(result.partial);
  return result;
}

std::vector<std::string> CutMesh::notes() const {
  std::vector<std::string> lines;
  for (size_t a = 0; a < cuts_.size(); ++a) {
    if (cuts_[a].size() <= 2) continue;
    std::vector<std::string> parts;
    for (size_t i = 0; i + 1 < cuts_[a].size(); ++i) {
      const MeshAxis& part = fine_->axes[static_cast<size_t>(first_[a]) + i];
      parts.push_back(fmt::format("{}={}", part.name, part.size));
    }
    lines.push_back(fmt::format("{}={} is {}", mesh_->axes[a].name, mesh_->axes[a].size,
                                fmt::join(parts, ", ")));
  }
  return lines;
}

void CutMesh::note(const AxisList& axes) {
  for (const AxisRef& ref : axes)
    cuts_[static_cast<size_t>(ref.axis)].insert({ref.pre, ref.next_pre()});
}

std::string CutMesh::free_name(const std::string& axis, size_t number) const {
  std::string name = fmt::format("{}_{}", axis, number);
  while (mesh_->find_axis(name)) name += "_";
  return name;
}

AxisList CutMesh::refined(const AxisList& axes) const {
  AxisList result;
  for (const AxisRef& ref : axes) {
    const std::set<int64_t>& cuts = cuts_[static_cast<size_t>(ref.axis)];
    int32_t index = first_[static_cast<size_t>(ref.axis)];
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut, ++index)
      if (*cut >= ref.pre && *cut < ref.next_pre()) result.push_back(whole_axis(*fine_, index));
  }
  return result;
}

}  // namespace cleave
