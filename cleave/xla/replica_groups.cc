#include "cleave/xla/replica_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/core/text_cursor.h"
#include "cleave/xla/hlo_text.h"

namespace cleave::xla {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 20;

std::vector<int64_t> integers(TextCursor& cursor, std::string_view open, std::string_view close) {
  std::vector<int64_t> numbers;
  cursor.expect(open);
  while (!cursor.accept(close)) {
    numbers.push_back(cursor.integer());
    if (numbers.back() < 0 || numbers.back() > kMostDevices) cursor.fail("it is no device");
    cursor.accept(",");
  }
  return numbers;
}

DeviceGroups listed(TextCursor& cursor) {
  DeviceGroups groups;
  cursor.expect("{");
  while (!cursor.accept("}")) {
    groups.push_back(integers(cursor, "{", "}"));
    cursor.accept(",");
  }
  return groups;
}

int64_t product(const std::vector<int64_t>& sizes, const TextCursor& cursor) {
  int64_t all = 1;
  for (const int64_t n : sizes) {
    if (n < 1 || n > kMostDevices) cursor.fail("a size is not that of devices");
    all *= n;
    if (all > kMostDevices) cursor.fail("there are more than 2^20 devices");
  }
  return all;
}

// Coordinates of `index` in row-major order are stored at place[0], ...
void unflatten(int64_t index, const std::vector<int64_t>& sizes, std::vector<int64_t>& place) {
  for (size_t d = sizes.size(); d-- > 0;) {
    place[d] = index % sizes[d];
    index /= sizes[d];
  }
}

// 0, 1, ... in the shape `sizes`, transposed, in row-major order. T(...) may be left out.
std::vector<int64_t> iota(TextCursor& cursor, const std::vector<int64_t>& sizes) {
  const int64_t all = product(sizes, cursor);
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (cursor.accept("T")) {
    const std::vector<int64_t> given = integers(cursor, "(", ")");
    if (!std::is_permutation(given.begin(), given.end(), order.begin(), order.end()))
      cursor.fail("T(...) must name every dimension once");
    order = given;
  }
  std::vector<int64_t> transposed, strides(sizes.size(), 1), place(sizes.size()), result;
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  for (const int64_t d : order) transposed.push_back(sizes[static_cast<size_t>(d)]);
  for (int64_t i = 0; i < all; ++i) {
    unflatten(i, transposed, place);
    int64_t value = 0;
    for (size_t d = 0; d < order.size(); ++d)
      value += place[d] * strides[static_cast<size_t>(order[d])];
    result.push_back(value);
  }
  return result;
}

DeviceGroups by_iota(TextCursor& cursor) {
  const std::vector<int64_t> shape = integers(cursor, "[", "]");
  cursor.expect("<=");
  const std::vector<int64_t> devices = iota(cursor, integers(cursor, "[", "]"));
  if (shape.empty() || product(shape, cursor) != static_cast<int64_t>(devices.size()))
    cursor.fail("the two shapes differ in size");
  const size_t size = shape.size() == 1 ? 1 : static_cast<size_t>(shape.back());
  DeviceGroups groups;
  for (size_t i = 0; i < devices.size(); i += size)
    groups.emplace_back(devices.begin() + static_cast<int64_t>(i),
                        devices.begin() + static_cast<int64_t>(i + size));
  return groups;
}

// `text` is that of the cursor.
std::string axis_name(TextCursor& cursor, std::string_view text) {
  if (!cursor.accept("'")) return std::string(cursor.identifier());
  const size_t end = text.find('\'', cursor.pos());
  if (end == std::string_view::npos) cursor.fail("the name of an axis does not end");
  std::string name(text.substr(cursor.pos(), end - cursor.pos()));
  cursor = TextCursor(text, end + 1);
  return name;
}

// The mesh, cut so that every axis of the groups is whole.
struct MeshGroups {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;

  void read(TextCursor& cursor, std::string_view text) {
    cursor.expect("mesh");
    cursor.expect("[");
    while (!cursor.accept("]")) {
      names.push_back(axis_name(cursor, text));
      cursor.expect("=");
      sizes.push_back(cursor.integer());
      cursor.accept(",");
    }
    product(sizes, cursor);
  }

  // For each group axis its size and its stride in the row-major order of the mesh.
  std::vector<std::pair<int64_t, int64_t>> axes(TextCursor& cursor, std::string_view text) const {
    std::vector<std::pair<int64_t, int64_t>> found;
    cursor.expect("{");
    while (!cursor.accept("}")) {
      const std::string name = axis_name(cursor, text);
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) cursor.fail("the mesh has no axis '" + name + "'");
      const size_t axis = static_cast<size_t>(at - names.begin());
      int64_t stride = 1, before = 1, size = sizes[axis];
      for (size_t d = axis + 1; d < sizes.size(); ++d) stride *= sizes[d];
      if (cursor.accept(":")) {
        cursor.expect("(");
        before = cursor.integer();
        cursor.expect(")");
        size = cursor.integer();
        if (before < 1 || size < 1 || before > kMostDevices || size > kMostDevices ||
            sizes[axis] % (before * size) != 0)
          cursor.fail("it is no part of the axis '" + name + "'");
      }
      found.emplace_back(size, stride * (sizes[axis] / (before * size)));
      cursor.accept(",");
    }
    return found;
  }
};

// `devices` in the order of the mesh.
DeviceGroups by_axes(const std::vector<std::pair<int64_t, int64_t>>& axes,
                     const std::vector<int64_t>& devices) {
  int64_t size = 1;
  for (const auto& [n, stride] : axes) size *= n;
  DeviceGroups groups;
  for (size_t first = 0; first < devices.size(); ++first) {
    const bool is_first = std::all_of(axes.begin(), axes.end(), [&](const auto& axis) {
      return static_cast<int64_t>(first) / axis.second % axis.first == 0;
    });
    if (!is_first) continue;
    std::vector<int64_t>& group = groups.emplace_back();
    for (int64_t i = 0; i < size; ++i) {
      int64_t place = static_cast<int64_t>(first), rest = i;
      for (size_t a = axes.size(); a-- > 0; rest /= axes[a].first)
        place += rest % axes[a].first * axes[a].second;
      if (place >= static_cast<int64_t>(devices.size()))
        throw_user("HLO: replica_groups name an axis twice");
      group.push_back(devices[static_cast<size_t>(place)]);
    }
  }
  return groups;
}

DeviceGroups by_mesh(std::string_view text, std::string_view device_ids) {
  TextCursor cursor(text);
  MeshGroups mesh;
  mesh.read(cursor, text);
  const int64_t all = product(mesh.sizes, cursor);
  std::vector<int64_t> devices(static_cast<size_t>(all));
  std::iota(devices.begin(), devices.end(), 0);
  if (!device_ids.empty()) {
    cursor = TextCursor(device_ids);
    TextCursor ahead = cursor;
    ahead.expect("(");
    if (ahead.peek() == '[') {
      cursor = ahead;
      const std::vector<int64_t> sizes = integers(cursor, "[", "]");
      devices = iota(cursor, sizes);
      cursor.expect(")");
    } else {
      devices = integers(cursor, "(", ")");
    }
    if (static_cast<int64_t>(devices.size()) != all) cursor.fail("the mesh has another size");
  }
  return by_axes(mesh.axes(cursor, device_ids.empty() ? text : device_ids), devices);
}

}  // namespace

DeviceGroups replica_groups(std::string_view attributes) {
  const std::string_view text = attribute(attributes, "replica_groups");
  if (text.empty()) return {};
  try {
    if (text.starts_with("mesh")) return by_mesh(text, attribute(attributes, "device_ids"));
    TextCursor cursor(text);
    return text.starts_with("[") ? by_iota(cursor) : listed(cursor);
  } catch (const ParseError& error) {
    throw_user("HLO: replica_groups={}: {}", text.substr(0, 80), error.what());
  }
}

DevicePairs source_target_pairs(std::string_view text) {
  DevicePairs pairs;
  try {
    TextCursor cursor(text);
    for (const std::vector<int64_t>& pair : listed(cursor)) {
      if (pair.size() != 2) cursor.fail("a sender and a receiver were expected");
      pairs.emplace_back(pair[0], pair[1]);
    }
  } catch (const ParseError& error) {
    throw_user("HLO: source_target_pairs={}: {}", text.substr(0, 80), error.what());
  }
  return pairs;
}

std::string groups_text(const DeviceGroups& groups) {
  if (groups.empty()) return "no groups";
  constexpr size_t kShown = 8;
  std::vector<int64_t> first = groups[0];
  const bool is_cut = first.size() > kShown;
  if (is_cut) first.resize(kShown);
  return fmt::format("{} group{} of {}: {{{}{}}}{}", groups.size(), groups.size() == 1 ? "" : "s",
                     groups[0].size(), fmt::join(first, ","), is_cut ? ",..." : "",
                     groups.size() == 1 ? "" : ", ...");
}

}  // namespace cleave::xla
