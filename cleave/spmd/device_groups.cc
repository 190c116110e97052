#include "cleave/spmd/device_groups.h"

#include <map>

namespace cleave {

std::vector<std::vector<int64_t>> groups_along(const Mesh& mesh, const AxisList& axes) {
  std::map<int64_t, std::vector<int64_t>> groups;  // by the first position of the group
  const int64_t count = mesh.num_devices();
  for (int64_t p = 0; p < count; ++p) {
    int64_t base = p;
    for (const AxisRef& ref : axes) {
      int64_t below = 1;
      for (size_t a = static_cast<size_t>(ref.axis) + 1; a < mesh.axes.size(); ++a)
        below *= mesh.axes[a].size;
      below *= mesh.axes[static_cast<size_t>(ref.axis)].size / ref.next_pre();
      base -= coordinate(ref, mesh, p) * below;
    }
    auto& group = groups[base];
    group.resize(static_cast<size_t>(total_size(axes)));
    group[static_cast<size_t>(coordinate(axes, mesh, p))] = mesh.device_at(p);
  }
  std::vector<std::vector<int64_t>> result;
  for (auto& [base, group] : groups) result.push_back(std::move(group));
  return result;
}

Attribute table_attr(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<int64_t> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  Literal literal;
  literal.type = Type::tensor(
      DType::I64,
      {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.empty() ? 0 : rows[0].size())});
  const auto* data = reinterpret_cast<const std::byte*>(flat.data());
  literal.bytes =
      std::make_shared<const std::vector<std::byte>>(data, data + flat.size() * sizeof(int64_t));
  return literal_attr(std::move(literal));
}

Attribute channel_attr(int64_t handle) {
  return StructAttr{"stablehlo.channel_handle",
                    {{"handle", int_attr(handle)}, {"type", int_attr(1)}}};
}

}  // namespace cleave
