#include "cleave/graph/op_def.h"
#include "cleave/spmd/partitioner.h"

// Ops whose devices take elements of their neighbours (OpDef::needs): slices, windows,
// convolutions.
namespace cleave {
namespace {

std::string halo_axes(const ShardingSpec& spec) {
  AxisList axes;
  for (const DimSpec& dim : spec.dims) axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  return to_string(axes, *spec.mesh);
}

bool is_within(const ShardSlice& box, const ShardSlice& held) {
  if (num_elements(box.size) == 0) return true;
  for (size_t d = 0; d < box.size.size(); ++d)
    if (box.offset[d] < held.offset[d] ||
        box.offset[d] + box.size[d] > held.offset[d] + held.size[d])
      return false;
  return true;
}

// The layout `wanted` without the cuts along dimensions where devices take other elements than
// their own: what is there whole already needs no neighbours. Nothing where `have` is cut there, or
// cannot be cut into the rest.
std::optional<ShardingSpec> uncut(const ShardingSpec& have, const ShardingSpec& wanted,
                                  const Shape& shape, const std::vector<ShardSlice>& boxes) {
  if (!have.mesh || !wanted.mesh || have.partial != wanted.partial) return std::nullopt;
  ShardingSpec spec = wanted;
  const Layout layout{wanted, nullptr};
  for (size_t device = 0; device < boxes.size(); ++device) {
    const ShardSlice own = layout.box(shape, static_cast<int64_t>(device));
    for (size_t d = 0; d < shape.size(); ++d)
      if (own.offset[d] != boxes[device].offset[d] || own.size[d] != boxes[device].size[d])
        spec.dims[d].axes.clear();
  }
  for (size_t d = 0; d < shape.size(); ++d)
    if (!is_prefix_of(have.dims[d].axes, spec.dims[d].axes)) return std::nullopt;
  return spec;
}

}  // namespace

std::vector<ValueId> Partitioner::use_with_borders(const Node& node, const OpPartition& how,
                                                   Width width, RegionId target) {
  std::vector<std::vector<ShardSlice>> boxes(node.operands.size());
  for (int64_t device = 0; device < program_.mesh->num_devices(); ++device) {
    auto box = [&](const ShardingSpec& spec, ValueId value) {
      return Layout{spec, nullptr}.box(source_.type(value).shape, device);
    };
    std::vector<ShardSlice> results, needed;
    for (size_t i = 0; i < node.results.size(); ++i)
      results.push_back(box(how.results[i], node.results[i]));
    for (size_t i = 0; i < node.operands.size(); ++i)
      needed.push_back(box(how.operands[i], node.operands[i]));
    node.def->needs(source_, node, results, needed);
    for (size_t i = 0; i < needed.size(); ++i) boxes[i].push_back(std::move(needed[i]));
  }
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId source = node.operands[i];
    const auto whole =
        uncut(spec_of(current(source)), how.operands[i], source_.type(source).shape, boxes[i]);
    const ValueId value = use_at(width, source, whole ? *whole : how.operands[i], target);
    operands.push_back(halo(value, std::move(boxes[i]), node, target));
  }
  return operands;
}

ValueId Partitioner::halo(ValueId value, std::vector<ShardSlice> boxes, const Node& user,
                          RegionId target) {
  const Layout layout = program_.layout(value);
  const Type type = program_.graph.type(value);
  bool enough = true;
  for (size_t device = 0; device < boxes.size(); ++device)
    enough =
        enough && is_within(boxes[device], layout.box(type.shape, static_cast<int64_t>(device)));
  if (enough) return value;
  AttrDict attrs;
  attrs.set("cleave.step", string_attr("halo"));
  attrs.set("cleave.axes", string_attr(halo_axes(layout.spec)));
  attrs.set("cleave.for", string_attr(user.name()));
  const NodeId id = add("cleave.halo", {value}, {type}, std::move(attrs), {layout.spec}, target);
  const ValueId result = program_.graph.node(id).results[0];
  program_.layouts[result.index].boxes =
      std::make_shared<const std::vector<ShardSlice>>(std::move(boxes));
  return result;
}

}  // namespace cleave
