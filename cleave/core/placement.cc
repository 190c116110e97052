#include "cleave/core/placement.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/core/text_cursor.h"

namespace cleave {

Placements to_placements(const ShardingSpec& spec) {
  const Mesh& mesh = *spec.mesh;
  Placements placements(mesh.axes.size());
  auto check = [&](const AxisRef& ref) {
    if (!is_whole(ref, mesh))
      throw_user(
          "sharding {}: {} is a part of an axis, and placements speak of whole axes; split "
          "the axis \"{}\" of the mesh in two",
          to_string(spec), to_string(ref, mesh), mesh.axes[ref.axis].name);
  };
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    const AxisList& axes = spec.dims[d].axes;
    for (size_t i = 0; i < axes.size(); ++i) {
      check(axes[i]);
      int64_t later_and_major = 1;
      for (size_t j = 0; j < i; ++j)
        if (axes[j].axis > axes[i].axis) later_and_major *= axes[j].size;
      placements[axes[i].axis] = later_and_major == 1
                                     ? Placement::shard(static_cast<int>(d))
                                     : Placement::strided(static_cast<int>(d), later_and_major);
    }
  }
  for (const AxisRef& ref : spec.partial) {
    check(ref);
    placements[ref.axis] = Placement::partial(spec.partial_op);
  }
  return placements;
}

namespace {

// The lengths of the chunks if each is split again over the next axis.
void split_again(int64_t length, const AxisList& axes, size_t from, std::vector<int64_t>& chunks) {
  if (from == axes.size()) {
    chunks.push_back(length);
    return;
  }
  const int64_t chunk = (length + axes[from].size - 1) / axes[from].size;
  for (int64_t i = 0; i < axes[from].size; ++i)
    split_again(std::clamp<int64_t>(length - i * chunk, 0, chunk), axes, from + 1, chunks);
}

}  // namespace

bool lies_as_placements(const ShardingSpec& spec, const Shape& shape) {
  if (!spec.partial.empty()) return false;
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    const AxisList& axes = spec.dims[d].axes;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (!is_whole(axes[i], *spec.mesh)) return false;
      if (i > 0 && axes[i].axis < axes[i - 1].axis) return false;
    }
    if (axes.size() < 2 || shape[d] % total_size(axes) == 0) continue;
    std::vector<int64_t> chunks;
    split_again(shape[d], axes, 0, chunks);
    const int64_t chunk = (shape[d] + total_size(axes) - 1) / total_size(axes);
    for (size_t i = 0; i < chunks.size(); ++i)
      if (chunks[i] != std::clamp<int64_t>(shape[d] - static_cast<int64_t>(i) * chunk, 0, chunk))
        return false;
  }
  return true;
}

ShardingSpec from_placements(const Placements& placements, const MeshPtr& mesh, size_t rank) {
  if (placements.size() != mesh->axes.size())
    throw_user("{} placements for the mesh {} with {} axes", placements.size(), to_string(*mesh),
               mesh->axes.size());
  ShardingSpec spec = ShardingSpec::closed_replicated(mesh, rank);
  for (size_t i = placements.size(); i-- > 0;) {
    const Placement& placement = placements[i];
    const AxisRef ref = whole_axis(*mesh, static_cast<int>(i));
    if (placement.kind == Placement::Kind::Replicate) continue;
    if (placement.kind == Placement::Kind::Partial) {
      if (!spec.partial.empty() && spec.partial_op != placement.reduce)
        throw_user("placements {}: a spec has one reduction, not {} and {}", to_string(placements),
                   name(placement.reduce), name(spec.partial_op));
      spec.partial.insert(spec.partial.begin(), ref);
      spec.partial_op = placement.reduce;
      continue;
    }
    if (placement.dim < 0 || static_cast<size_t>(placement.dim) >= rank)
      throw_user("placement {} on axis \"{}\": the tensor has {} dimensions", to_string(placement),
                 mesh->axes[i].name, rank);
    AxisList& axes = spec.dims[placement.dim].axes;
    size_t place = 0;
    int64_t major = 1;
    while (place < axes.size() && major < placement.split_factor) major *= axes[place++].size;
    if (major != placement.split_factor)
      throw_user(
          "placement {} on axis \"{}\": the later axes of dimension {} do not split it into {}",
          to_string(placement), mesh->axes[i].name, placement.dim, placement.split_factor);
    axes.insert(axes.begin() + static_cast<int64_t>(place), ref);
  }
  return spec;
}

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::Replicate:
      return "R";
    case Placement::Kind::Shard:
      return fmt::format("S({})", placement.dim);
    case Placement::Kind::StridedShard:
      return fmt::format("SS({},{})", placement.dim, placement.split_factor);
    case Placement::Kind::Partial:
      return fmt::format("P({})", name(placement.reduce));
  }
  return {};
}

std::string to_string(const Placements& placements) {
  std::string text;
  for (const Placement& placement : placements)
    text += (text.empty() ? "" : ", ") + to_string(placement);
  return text;
}

Placements parse_placements(std::string_view text) {
  TextCursor cursor(text);
  Placements placements;
  if (cursor.at_end()) return placements;
  do {
    const std::string_view word = cursor.identifier();
    if (word == "R") {
      placements.push_back(Placement::replicate());
      continue;
    }
    if (word != "S" && word != "SS" && word != "P")
      cursor.fail(
          fmt::format("unknown placement '{}'; expected R, S(dim), SS(dim,factor) or P(op)", word));
    cursor.expect("(");
    if (word == "P") {
      const std::string_view op_name = cursor.identifier();
      auto op = reduce_op_from_name(op_name);
      if (!op) cursor.fail(fmt::format("unknown reduction '{}'", op_name));
      placements.push_back(Placement::partial(*op));
    } else {
      const int dim = static_cast<int>(cursor.integer());
      if (word == "S") {
        placements.push_back(Placement::shard(dim));
      } else {
        cursor.expect(",");
        placements.push_back(Placement::strided(dim, cursor.integer()));
      }
    }
    cursor.expect(")");
  } while (cursor.accept(","));
  if (!cursor.at_end()) cursor.fail("expected ',' between placements");
  return placements;
}

}  // namespace cleave
