#include "cleave/ops/sdy/sdy_check.h"

#include <algorithm>

#include "cleave/graph/value_sharding.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

std::string axes_text(const AxisList& axes, const Mesh& mesh) {
  return "{" + to_string(axes, mesh) + "}";
}

// Axes that exist, none of them twice, and neighbours that could be one are one.
void require_axes(const Node& node, const std::vector<AxisList>& lists, const Mesh& mesh) {
  AxisList seen;
  for (const AxisList& axes : lists) {
    for (size_t i = 0; i < axes.size(); ++i) {
      verify(axes[i], mesh);
      require(!overlaps_any(axes[i], seen), node, "axis {} appears twice",
              to_string(axes[i], mesh));
      if (i > 0 && can_merge(axes[i - 1], axes[i]))
        fail(node, "axes {} and {} can be merged", to_string(axes[i - 1], mesh),
             to_string(axes[i], mesh));
      seen.push_back(axes[i]);
    }
  }
}

void require_mesh_order(const Node& node, const AxisList& axes, const Mesh& mesh) {
  require(std::is_sorted(axes.begin(), axes.end()), node, "axes {} are not in the mesh's order",
          axes_text(axes, mesh));
}

// `axes` without those at its minor end.
AxisList gathered(const Node& node, AxisList axes, const AxisList& gathering, size_t dim,
                  const Mesh& mesh) {
  for (auto it = gathering.rbegin(); it != gathering.rend(); ++it) {
    require(!axes.empty() && is_suffix_of(*it, axes.back()), node,
            "axis {} is not at the minor end of dimension {} of the operand", to_string(*it, mesh),
            dim);
    const auto rest = prefix_without_overlap(axes.back(), *it);
    axes.pop_back();
    if (rest) axes.push_back(*rest);
  }
  return axes;
}

AxisList sliced(AxisList axes, const AxisList& slicing) {
  for (const AxisRef& ref : slicing) append_axis(axes, ref);
  return axes;
}

void require_dim(const Node& node, const ShardingSpec& result, size_t dim, const AxisList& axes) {
  require(result.dims[dim].axes == axes, node,
          "dimension {} of the result is sharded over {}, and the axes make it {}", dim,
          axes_text(result.dims[dim].axes, *result.mesh), axes_text(axes, *result.mesh));
}

const std::vector<AxisList>& lists_of(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  const auto* lists = attribute ? attribute->as<AxisListsAttr>() : nullptr;
  require(lists, node, "the attribute '{}' is missing", name);
  return lists->lists;
}

AxisList in_mesh_order(AxisList axes) {
  std::sort(axes.begin(), axes.end());
  merge_neighbours(axes);
  return axes;
}

// The operator by which a sdy.all_reduce or sdy.reduce_scatter completes.
ReduceOp completing_op(const Node& node) {
  if (!node.attrs.has("reduction_op")) return ReduceOp::Sum;
  const auto op = reduce_op_from_name(node.attrs.get_string("reduction_op"));
  require(op.has_value(), node, "reduction_op '{}' is unknown",
          node.attrs.get_string("reduction_op"));
  return *op;
}

struct Collective {
  const Node& node;
  const ShardingSpec& before;
  const ShardingSpec& after;
  const Mesh& mesh() const { return *after.mesh; }

  void gather_or_slice(const char* name, bool gathers) const {
    const std::vector<AxisList>& lists = lists_of(node, name);
    require_axes(node, lists, mesh());
    require(lists.size() == after.rank(), node, "axes for {} dimensions, the result has {}",
            lists.size(), after.rank());
    for (size_t d = 0; d < lists.size(); ++d)
      require_dim(node, after, d,
                  gathers ? gathered(node, before.dims[d].axes, lists[d], d, mesh())
                          : sliced(before.dims[d].axes, lists[d]));
  }

  void all_to_all() const {
    const Attribute* attribute = node.attrs.find("params");
    const auto* params = attribute ? attribute->as<AllToAllAttr>() : nullptr;
    require(params && !params->moves.empty(), node, "has no parameters");
    const auto rank = static_cast<int64_t>(after.rank());
    std::vector<AxisList> lists;
    for (const AllToAllMove& move : params->moves) lists.push_back(move.axes);
    require_axes(node, lists, mesh());
    std::vector<bool> moved(after.rank());
    int64_t last = -1;
    for (const AllToAllMove& move : params->moves) {
      for (int64_t d : {move.source_dim, move.target_dim}) {
        require(d >= 0 && d < rank, node, "dimension {} must lie in [0, {})", d, rank);
        require(!moved[static_cast<size_t>(d)], node, "dimension {} is in two moves", d);
        moved[static_cast<size_t>(d)] = true;
      }
      require(move.source_dim > last, node, "moves from dimension {} after one from dimension {}",
              move.source_dim, last);
      last = move.source_dim;
    }
    for (const AllToAllMove& move : params->moves) {
      const auto source = static_cast<size_t>(move.source_dim);
      const auto target = static_cast<size_t>(move.target_dim);
      require_dim(node, after, source,
                  gathered(node, before.dims[source].axes, move.axes, source, mesh()));
      require_dim(node, after, target, sliced(before.dims[target].axes, move.axes));
    }
    for (size_t d = 0; d < moved.size(); ++d)
      if (!moved[d]) require_dim(node, after, d, before.dims[d].axes);
  }

  void permute() const {
    require(before.mesh->axes == mesh().axes, node, "goes from mesh {} to {}, of other axes",
            to_string_with_mesh(before), to_string_with_mesh(after));
    require(before.mesh->name == mesh().name || before.mesh->device_ids != mesh().device_ids, node,
            "the meshes @{} and @{} have the same devices", before.mesh->name, mesh().name);
    for (size_t d = 0; d < after.rank(); ++d)
      require(total_size(before.dims[d].axes) == total_size(after.dims[d].axes), node,
              "dimension {} is in {} parts before and in {} after", d,
              total_size(before.dims[d].axes), total_size(after.dims[d].axes));
  }

  void all_reduce() const {
    for (size_t d = 0; d < after.rank(); ++d) require_dim(node, after, d, before.dims[d].axes);
    const std::vector<AxisList>& lists = lists_of(node, "reduction_axes");
    require_axes(node, lists, mesh());
    for (const AxisList& axes : lists) {
      require_mesh_order(node, axes, mesh());
      for (const AxisRef& ref : axes) {
        for (const DimSpec& dim : before.dims)
          require(!overlaps_any(ref, dim.axes), node, "axis {} shards the operand",
                  to_string(ref, mesh()));
        require(!overlaps_any(ref, before.replicated), node, "axis {} replicates the operand",
                to_string(ref, mesh()));
        require(!overlaps_any(ref, after.partial), node, "the result is partial along axis {}",
                to_string(ref, mesh()));
      }
    }
    completes();
  }

  // What a reduction removes from the partial axes has its operator, and it adds none.
  void completes() const {
    for (const AxisRef& ref : after.partial)
      require(std::any_of(before.partial.begin(), before.partial.end(),
                          [&](const AxisRef& old) { return contains(old, ref); }),
              node, "the result is partial along axis {}, and the operand is not",
              to_string(ref, mesh()));
    if (before.partial.empty() || before.partial == after.partial) return;
    require(before.partial_op == completing_op(node), node,
            "the operand's parts are to be combined by {}, not by {}", name(before.partial_op),
            name(completing_op(node)));
  }

  void becomes_partial(const std::vector<AxisList>& lists) const {
    AxisList expected = before.partial;
    for (const AxisList& axes : lists) expected.insert(expected.end(), axes.begin(), axes.end());
    expected = in_mesh_order(std::move(expected));
    require(expected == after.partial, node,
            "the result is partial along {}, and the axes make it {}",
            axes_text(after.partial, mesh()), axes_text(expected, mesh()));
  }

  void replicated_to_unreduced() const {
    for (size_t d = 0; d < after.rank(); ++d) require_dim(node, after, d, before.dims[d].axes);
    const std::vector<AxisList>& lists = lists_of(node, "axes");
    require_axes(node, lists, mesh());
    require(!lists.empty() && !lists[0].empty(), node, "has no axes");
    require_mesh_order(node, lists[0], mesh());
    for (const AxisRef& ref : lists[0]) {
      for (const DimSpec& dim : before.dims)
        require(!overlaps_any(ref, dim.axes), node, "axis {} shards the operand",
                to_string(ref, mesh()));
      require(!overlaps_any(ref, before.partial), node, "the operand is partial along axis {}",
              to_string(ref, mesh()));
    }
    becomes_partial(lists);
  }
};

}  // namespace

void verify_sdy_collective(const Graph& graph, const Node& node) {
  // The steps of a partitioned program lie between values whose layouts are not in the text.
  if (node.attrs.has("cleave.step")) return;
  const Attribute* attribute = node.attrs.find("out_sharding");
  const auto* after = attribute ? attribute->as<ShardingAttr>() : nullptr;
  require(after && after->spec.mesh, node, "the attribute 'out_sharding' is missing");
  const std::string_view op = std::string_view(node.name()).substr(4);
  std::optional<ShardingSpec> before = get_sharding(graph, node.operands[0]);
  // A value without a sharding is replicated, which these may begin with.
  const bool from_replicated = op == "all_slice" || op == "all_reduce" || op == "reduce_scatter" ||
                               op == "replicated_to_unreduced";
  if (!before && from_replicated)
    before = ShardingSpec::closed_replicated(after->spec.mesh, after->spec.rank());
  require(before && before->mesh, node, "the operand has no sharding");
  require(before->rank() == after->spec.rank(), node,
          "the operand's sharding has {} dimensions, the result's {}", before->rank(),
          after->spec.rank());
  require(op == "collective_permute" || before->mesh->same_devices(*after->spec.mesh), node,
          "goes from {} to {}, of another mesh", to_string_with_mesh(*before),
          to_string_with_mesh(after->spec));
  const Collective collective{node, *before, after->spec};
  if (op == "all_gather") {
    collective.gather_or_slice("gathering_axes", true);
  } else if (op == "all_slice") {
    collective.gather_or_slice("slicing_axes", false);
  } else if (op == "reduce_scatter") {
    collective.gather_or_slice("reduce_scatter_axes", false);
    collective.completes();
  } else if (op == "all_to_all") {
    collective.all_to_all();
  } else if (op == "collective_permute") {
    collective.permute();
  } else if (op == "all_reduce") {
    collective.all_reduce();
  } else if (op == "sharded_to_unreduced") {
    collective.gather_or_slice("axes", true);
    collective.becomes_partial(lists_of(node, "axes"));
  } else if (op == "replicated_to_unreduced") {
    collective.replicated_to_unreduced();
  }
}

void verify_manual_shardings(const Node& node, const std::vector<ShardingSpec>& in,
                             const std::vector<ShardingSpec>& out,
                             const std::vector<std::string>& manual) {
  const Mesh* mesh = nullptr;
  const auto is_manual = [&](const AxisRef& ref) {
    return std::find(manual.begin(), manual.end(), mesh->axes[ref.axis].name) != manual.end();
  };
  for (const auto* specs : {&in, &out})
    for (const ShardingSpec& spec : *specs) {
      if (!spec.mesh || spec.mesh->axes.empty()) continue;
      require(!mesh || manual.empty() || mesh->same_devices(*spec.mesh), node,
              "its shardings are of several meshes");
      mesh = spec.mesh.get();
      for (const DimSpec& dim : spec.dims)
        require(std::is_partitioned(dim.axes.begin(), dim.axes.end(), is_manual), node,
                "{} has a manual axis after one that is free", to_string_with_mesh(spec));
    }
  if (!mesh) return;
  for (const std::string& name : manual)
    require(std::any_of(mesh->axes.begin(), mesh->axes.end(),
                        [&](const auto& axis) { return axis.name == name; }),
            node, "the manual axis \"{}\" is not in the mesh", name);
}

}  // namespace cleave
