#include "cleave/ops/collective/process_groups.h"

#include <algorithm>
#include <cstring>

#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

constexpr int64_t kMostIds = int64_t{1} << 22;

// The rows of a dense<[[0, 1], [2, -1]]>; -1 fills up short rows.
std::vector<std::vector<int64_t>> rows_of(const Node& node, const char* name) {
  std::vector<std::vector<int64_t>> rows;
  const Attribute* attribute = node.attrs.find(name);
  if (!attribute) return rows;
  const auto* elements = attribute->as<ElementsAttr>();
  const DType dtype = elements ? elements->literal.type.dtype : DType::Other;
  require(elements && elements->literal.type.rank() == 2 && elements->literal.bytes &&
              (dtype == DType::I32 || dtype == DType::U32 || dtype == DType::I64 ||
               dtype == DType::U64),
          node, "'{}' is no matrix of integers", name);
  const Literal& literal = elements->literal;
  require(literal.num_elements() <= kMostIds, node, "'{}', {}, names more than {} devices", name,
          to_string(literal.type), kMostIds);
  const int64_t columns = literal.type.shape[1];
  for (int64_t i = 0; i < literal.num_elements(); ++i) {
    if (i % columns == 0) rows.emplace_back();
    int64_t value = 0;
    const int size = byte_size(literal.type.dtype);
    const std::byte* at = literal.data() + (literal.splat ? 0 : i * size);
    if (size == 8) {
      std::memcpy(&value, at, 8);
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, at, 4);
      value = narrow;
    }
    if (value >= 0) rows.back().push_back(value);
  }
  return rows;
}

}  // namespace

int64_t channel_of(const Node& node) {
  const Attribute* attribute = node.attrs.find("channel_handle");
  const auto* handle = attribute ? attribute->as<StructAttr>() : nullptr;
  return handle ? handle->get_int("handle", 0) : node.attrs.get_int("channel_id", 0);
}

GroupMode global_mode(const Node& node) {
  const bool global =
      node.attrs.has("use_global_device_ids") && node.attrs.get_bool("use_global_device_ids", true);
  if (channel_of(node) <= 0) {
    require(!global, node, "use_global_device_ids needs a channel");
    return GroupMode::CrossReplica;
  }
  return global ? GroupMode::FlattenedIds : GroupMode::CrossReplicaAndPartition;
}

GroupMode channel_mode(const Node& node) {
  return channel_of(node) > 0 ? GroupMode::CrossPartition : GroupMode::CrossReplica;
}

std::vector<std::vector<int64_t>> device_groups(const Node& node, GroupMode mode, DeviceGrid grid) {
  std::vector<std::vector<int64_t>> rows = rows_of(node, "replica_groups");
  const int64_t limit = mode == GroupMode::FlattenedIds     ? grid.num_devices()
                        : mode == GroupMode::CrossPartition ? grid.partitions
                                                            : grid.replicas;
  if (rows.empty()) {
    rows.emplace_back();
    for (int64_t i = 0; i < limit; ++i) rows[0].push_back(i);
  }
  std::vector<std::vector<int64_t>> groups;
  for (const std::vector<int64_t>& row : rows) {
    for (int64_t id : row)
      require(id < limit, node, "replica_groups names {}, and there are {} of them", id, limit);
    switch (mode) {
      case GroupMode::FlattenedIds:
        groups.push_back(row);
        break;
      case GroupMode::CrossReplica:
        for (int64_t p = 0; p < grid.partitions; ++p) {
          groups.emplace_back();
          for (int64_t r : row) groups.back().push_back(r * grid.partitions + p);
        }
        break;
      case GroupMode::CrossPartition:
        for (int64_t r = 0; r < grid.replicas; ++r) {
          groups.emplace_back();
          for (int64_t p : row) groups.back().push_back(r * grid.partitions + p);
        }
        break;
      case GroupMode::CrossReplicaAndPartition:
        groups.emplace_back();
        for (int64_t p = 0; p < grid.partitions; ++p)
          for (int64_t r : row) groups.back().push_back(r * grid.partitions + p);
        break;
    }
  }
  return groups;
}

std::optional<std::vector<int64_t>> device_group(const Node& node, GroupMode mode, DeviceGrid grid,
                                                 int64_t device) {
  for (std::vector<int64_t>& group : device_groups(node, mode, grid))
    if (std::find(group.begin(), group.end(), device) != group.end()) return std::move(group);
  return std::nullopt;
}

std::vector<std::pair<int64_t, int64_t>> device_pairs(const Node& node, GroupMode mode,
                                                      DeviceGrid grid, int64_t device) {
  const int64_t limit = mode == GroupMode::CrossPartition ? grid.partitions : grid.replicas;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const std::vector<int64_t>& row : rows_of(node, "source_target_pairs")) {
    require(row.size() == 2 && row[0] < limit && row[1] < limit, node,
            "source_target_pairs names one that is not there; there are {}", limit);
    if (mode == GroupMode::CrossPartition) {
      const int64_t base = device / grid.partitions * grid.partitions;
      pairs.emplace_back(base + row[0], base + row[1]);
    } else {
      const int64_t column = device % grid.partitions;
      pairs.emplace_back(row[0] * grid.partitions + column, row[1] * grid.partitions + column);
    }
  }
  return pairs;
}

AttrDict meeting_attrs(const Node& node) {
  AttrDict attrs;
  for (const char* name :
       {"replica_groups", "channel_handle", "channel_id", "use_global_device_ids"})
    if (const Attribute* value = node.attrs.find(name)) attrs.set(name, *value);
  return attrs;
}

}  // namespace cleave
