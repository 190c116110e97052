#include "cleave/core/axis.h"

#include <algorithm>

#include "cleave/core/error.h"

namespace cleave {
namespace {

AxisRef between(int32_t axis, int64_t begin, int64_t end) {
  return {axis, static_cast<int32_t>(begin), static_cast<int32_t>(end / begin)};
}

}  // namespace

AxisRef whole_axis(const Mesh& mesh, int axis) {
  return {axis, 1, static_cast<int32_t>(mesh.axes[axis].size)};
}
AxisRef whole_axis(const Mesh& mesh, std::string_view name) {
  return whole_axis(mesh, mesh.axis_index(name));
}
bool is_whole(const AxisRef& ref, const Mesh& mesh) {
  return ref.pre == 1 && ref.size == mesh.axes[ref.axis].size;
}

bool contains(const AxisRef& a, const AxisRef& b) {
  return a.axis == b.axis && a.pre <= b.pre && b.next_pre() <= a.next_pre() && can_coexist(a, b);
}

bool is_prefix_of(const AxisRef& a, const AxisRef& b) {
  return a.axis == b.axis && a.pre == b.pre && b.size % a.size == 0;
}

bool is_suffix_of(const AxisRef& a, const AxisRef& b) {
  return a.axis == b.axis && a.next_pre() == b.next_pre() && b.size % a.size == 0;
}

bool overlaps(const AxisRef& a, const AxisRef& b) {
  return a.axis == b.axis && a.pre < b.next_pre() && b.pre < a.next_pre();
}

bool can_coexist(const AxisRef& a, const AxisRef& b) {
  if (a.axis != b.axis) return true;
  const int64_t min_pre = std::min(a.pre, b.pre), max_pre = std::max(a.pre, b.pre);
  const int64_t min_next = std::min(a.next_pre(), b.next_pre());
  const int64_t max_next = std::max(a.next_pre(), b.next_pre());
  if (max_pre < min_next)
    return max_pre % min_pre == 0 && min_next % max_pre == 0 && max_next % min_next == 0;
  return max_pre % min_next == 0;
}

std::optional<AxisRef> overlap(const AxisRef& a, const AxisRef& b) {
  if (!overlaps(a, b) || !can_coexist(a, b)) return std::nullopt;
  return between(a.axis, std::max(a.pre, b.pre), std::min(a.next_pre(), b.next_pre()));
}

std::optional<AxisRef> prefix_without_overlap(const AxisRef& a, const AxisRef& b) {
  if (!can_coexist(a, b)) return std::nullopt;
  if (!overlaps(a, b)) return a;
  if (a.pre >= b.pre) return std::nullopt;
  return between(a.axis, a.pre, b.pre);
}

std::optional<AxisRef> suffix_without_overlap(const AxisRef& a, const AxisRef& b) {
  if (!can_coexist(a, b)) return std::nullopt;
  if (!overlaps(a, b)) return a;
  if (a.next_pre() <= b.next_pre()) return std::nullopt;
  return between(a.axis, b.next_pre(), a.next_pre());
}

std::optional<AxisRef> common_prefix(const AxisRef& a, const AxisRef& b) {
  if (is_prefix_of(a, b)) return a;
  if (is_prefix_of(b, a)) return b;
  return std::nullopt;
}

bool can_merge(const AxisRef& a, const AxisRef& b) {
  return a.axis == b.axis && a.next_pre() == b.pre;
}

AxisRef merge(const AxisRef& a, const AxisRef& b) { return {a.axis, a.pre, a.size * b.size}; }

int64_t total_size(const AxisList& axes) {
  int64_t size = 1;
  for (const AxisRef& ref : axes) size *= ref.size;
  return size;
}

bool overlaps_any(const AxisRef& ref, const AxisList& axes) {
  return std::any_of(axes.begin(), axes.end(), [&](const AxisRef& a) { return overlaps(ref, a); });
}

AxisList common_prefix(const AxisList& a, const AxisList& b) {
  AxisList prefix;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) {
      prefix.push_back(a[i]);
      continue;
    }
    if (auto part = common_prefix(a[i], b[i])) prefix.push_back(*part);
    break;
  }
  return prefix;
}

bool is_prefix_of(const AxisList& a, const AxisList& b) {
  if (a.size() > b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    return i + 1 == a.size() && is_prefix_of(a[i], b[i]);
  }
  return true;
}

void append_axis(AxisList& axes, const AxisRef& ref) {
  if (!axes.empty() && can_merge(axes.back(), ref)) {
    axes.back() = merge(axes.back(), ref);
  } else {
    axes.push_back(ref);
  }
}

void merge_neighbours(AxisList& axes) {
  AxisList merged;
  for (const AxisRef& ref : axes) append_axis(merged, ref);
  axes = std::move(merged);
}

std::string to_string(const AxisRef& ref, const Mesh& mesh) {
  std::string text = "\"" + mesh.axes[ref.axis].name + "\"";
  if (!is_whole(ref, mesh)) text += fmt::format(":({}){}", ref.pre, ref.size);
  return text;
}

std::string to_string(const AxisList& axes, const Mesh& mesh) {
  std::string text;
  for (const AxisRef& ref : axes) {
    if (!text.empty()) text += ", ";
    text += to_string(ref, mesh);
  }
  return text;
}

void verify(const AxisRef& ref, const Mesh& mesh) {
  if (ref.axis < 0 || static_cast<size_t>(ref.axis) >= mesh.axes.size())
    throw_user("axis {} is not an axis of the mesh {}", ref.axis, to_string(mesh));
  if (is_whole(ref, mesh)) return;
  const MeshAxis& axis = mesh.axes[ref.axis];
  const std::string text = to_string(ref, mesh);
  if (ref.pre < 1) throw_user("sub-axis {}: the pre-size must be at least 1", text);
  if (ref.size <= 1) throw_user("sub-axis {}: the size must be greater than 1", text);
  if (axis.size % ref.next_pre() != 0)
    throw_user("sub-axis {}: pre-size {} times size {} must divide the size {} of axis \"{}\"",
               text, ref.pre, ref.size, axis.size, axis.name);
}

int64_t coordinate(const AxisRef& ref, const Mesh& mesh, int64_t position) {
  int64_t minor = 1;
  for (size_t i = ref.axis + 1; i < mesh.axes.size(); ++i) minor *= mesh.axes[i].size;
  const int64_t size = mesh.axes[ref.axis].size;
  const int64_t on_axis = position / minor % size;
  return on_axis / (size / ref.next_pre()) % ref.size;
}

int64_t coordinate(const AxisList& axes, const Mesh& mesh, int64_t position) {
  int64_t result = 0;
  for (const AxisRef& ref : axes) result = result * ref.size + coordinate(ref, mesh, position);
  return result;
}

}  // namespace cleave
