#include "cleave/core/picture.h"

#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"

namespace cleave {
namespace {

std::string range_text(int64_t offset, int64_t size) {
  return size == 0 ? "empty" : fmt::format("[{},{})", offset, offset + size);
}

std::string range_text(int64_t n, int64_t shards, int64_t index) {
  const Chunk chunk = chunk_of(n, shards, index);
  return range_text(chunk.offset, chunk.size);
}

std::string_view sign(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return " + ";
    case ReduceOp::Prod:
      return " * ";
    case ReduceOp::And:
      return " & ";
    case ReduceOp::Or:
      return " | ";
    case ReduceOp::Max:
      return " max ";
    case ReduceOp::Min:
      return " min ";
    case ReduceOp::Avg:
      return " avg ";
  }
  return " ";
}

using Index = std::vector<int64_t>;

// The devices of every shard, as text.
std::map<Index, std::string> holders(const ShardingSpec& spec) {
  const Mesh& mesh = *spec.mesh;
  std::map<Index, std::map<int64_t, std::vector<int64_t>>> devices;  // by shard, then part
  for (int64_t position = 0; position < mesh.num_devices(); ++position) {
    Index index;
    for (const DimSpec& dim : spec.dims) index.push_back(coordinate(dim.axes, mesh, position));
    devices[index][coordinate(spec.partial, mesh, position)].push_back(mesh.device_at(position));
  }
  std::map<Index, std::string> result;
  for (auto& [index, parts] : devices) {
    std::string text;
    for (auto& [part, ids] : parts) {
      std::sort(ids.begin(), ids.end());
      std::string joined;
      for (int64_t id : ids) joined += (joined.empty() ? "" : ",") + std::to_string(id);
      if (!text.empty()) text += sign(spec.partial_op);
      text += parts.size() > 1 && ids.size() > 1 ? "(" + joined + ")" : joined;
    }
    result[index] = text;
  }
  return result;
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

class Grid {
 public:
  Grid(const ShardingSpec& spec, const Shape& shape) : shape_(shape), holders_(holders(spec)) {
    for (const DimSpec& dim : spec.dims) shards_.push_back(total_size(dim.axes));
  }

  std::string draw() {
    const size_t rank = shape_.size();
    std::string text;
    Index index(rank, 0);
    while (true) {
      for (size_t d = 0; d + 2 < rank; ++d)
        text += fmt::format("{}dim {} {}", d ? ", " : "", d,
                            range_text(shape_[d], shards_[d], index[d]));
      if (rank > 2) text += "\n";
      text += draw_plane(index);
      if (rank <= 2) return text;
      size_t d = rank - 2;
      while (d-- > 0) {
        if (++index[d] < shards_[d]) break;
        index[d] = 0;
      }
      if (d == static_cast<size_t>(-1)) return text;
      text += "\n";
    }
  }

 private:
  std::string draw_plane(Index index) const {
    const size_t rank = shape_.size();
    const int64_t rows = rank >= 2 ? shards_[rank - 2] : 1;
    const int64_t columns = rank >= 1 ? shards_[rank - 1] : 1;
    std::vector<std::string> row_labels, column_labels;
    for (int64_t r = 0; r < rows; ++r)
      row_labels.push_back(rank >= 2 ? range_text(shape_[rank - 2], rows, r) : "");
    for (int64_t c = 0; c < columns; ++c)
      column_labels.push_back(rank >= 1 ? range_text(shape_[rank - 1], columns, c) : "");
    std::vector<std::vector<std::string>> cells(rows);
    size_t label_width = 0, cell_width = 0;
    for (int64_t r = 0; r < rows; ++r) {
      label_width = std::max(label_width, row_labels[r].size());
      for (int64_t c = 0; c < columns; ++c) {
        if (rank >= 2) index[rank - 2] = r;
        if (rank >= 1) index[rank - 1] = c;
        cells[r].push_back(holders_.at(index));
        cell_width = std::max({cell_width, cells[r].back().size(), column_labels[c].size()});
      }
    }
    const std::string margin(label_width + 3, ' ');
    std::string line = margin, header = margin;
    for (int64_t c = 0; c < columns; ++c) {
      header += "  " + padded(column_labels[c], cell_width + 1);
      line += "+" + std::string(cell_width + 2, '-');
    }
    header.erase(header.find_last_not_of(' ') + 1);
    line += "+\n";
    std::string text = header.empty() ? line : header + "\n" + line;
    for (int64_t r = 0; r < rows; ++r) {
      text += "  " + padded(row_labels[r], label_width) + " ";
      for (const std::string& cell : cells[r]) text += "| " + padded(cell, cell_width) + " ";
      text += "|\n" + line;
    }
    return text;
  }

  Shape shape_;
  Shape shards_;
  std::map<Index, std::string> holders_;
};

}  // namespace

std::string picture(const ShardingSpec& spec, const Shape& shape) {
  verify(spec, shape);
  if (spec.mesh->is_maximal())
    return fmt::format("everything on device {}\n", spec.mesh->device_ids[0]);
  return Grid(spec, shape).draw();
}

std::string device_table(const ShardingSpec& spec, const Shape& shape) {
  verify(spec, shape);
  std::string text;
  const int64_t devices = spec.mesh->num_devices();
  const size_t width = std::to_string(devices - 1).size();
  for (int64_t device = 0; device < devices; ++device) {
    const int64_t position = spec.mesh->is_maximal() ? 0 : spec.mesh->position_of(device);
    const int64_t id = spec.mesh->is_maximal() ? spec.mesh->device_ids[0] : device;
    ShardSlice slice{Shape(shape.size(), 0), shape};
    if (!spec.mesh->is_maximal()) slice = shard_slice(spec, shape, position);
    std::string ranges;
    for (size_t d = 0; d < shape.size(); ++d)
      ranges += (d ? " x " : "") + range_text(slice.offset[d], slice.size[d]);
    text += fmt::format("device {:>{}}  {}  {}\n", id, width, ranges,
                        shape.empty() ? "scalar" : to_string(slice.size));
  }
  return text;
}

}  // namespace cleave
