#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/mesh.h"

namespace cleave {

// A whole mesh axis or a part of it. Splitting an axis into sub-axes reshapes it to [k1, ..., kn];
// the i-th sub-axis has pre = k1*...*k(i-1) and size = ki, written "x":(pre)size. A whole axis is
// the sub-axis with pre 1 and the full size; so every question below is arithmetic on two numbers
// and needs no mesh. `axis` is the index of the axis in its mesh.
//
// In the examples, "a" is an axis of size 16.
struct AxisRef {
  int32_t axis = 0;
  int32_t pre = 1;
  int32_t size = 1;

  int64_t next_pre() const { return int64_t{pre} * size; }
  bool operator==(const AxisRef&) const = default;
  // Mesh order: by axis, then pre, then size.
  auto operator<=>(const AxisRef&) const = default;
};

using AxisList = std::vector<AxisRef>;  // major to minor

AxisRef whole_axis(const Mesh& mesh, int axis);
AxisRef whole_axis(const Mesh& mesh, std::string_view name);
bool is_whole(const AxisRef& ref, const Mesh& mesh);

// "a", "a":(2)2 -> true;  "a":(2)16, "a":(4)2 -> true;  "a":(1)4, "a":(2)4 -> false
bool contains(const AxisRef& a, const AxisRef& b);
// b starts where a starts:  "a":(1)2, "a" -> true;  "a":(2)2, "a":(2)4 -> true;  "a":(1)4, "a":(1)2
// -> false
bool is_prefix_of(const AxisRef& a, const AxisRef& b);
// b ends where a ends:  "a":(2)8, "a" -> true;  "a":(1)4, "a" -> false
bool is_suffix_of(const AxisRef& a, const AxisRef& b);
// "a":(1)4, "a":(2)4 -> true;  "a":(1)4, "a":(4)2 -> false
bool overlaps(const AxisRef& a, const AxisRef& b);
// Whether both can be cut out of one splitting of the axis:
// "a":(1)2, "a":(4)2 -> true;  "a":(1)4, "a":(2)4 -> true;  "a":(1)2, "a":(1)3 -> false
bool can_coexist(const AxisRef& a, const AxisRef& b);
// The part in both:  "a":(1)4, "a":(2)4 -> "a":(2)2;  nothing if they do not overlap or cannot
// coexist.
std::optional<AxisRef> overlap(const AxisRef& a, const AxisRef& b);
// a without its part from b on:  "a", "a":(2)2 -> "a":(1)2;  a itself if they do not overlap;
// nothing if b starts at or before a.
std::optional<AxisRef> prefix_without_overlap(const AxisRef& a, const AxisRef& b);
// a without its part up to the end of b:  "a", "a":(2)2 -> "a":(4)4
std::optional<AxisRef> suffix_without_overlap(const AxisRef& a, const AxisRef& b);
// "a":(1)4, "a" -> "a":(1)4;  "a":(1)2, "a":(2)4 -> nothing
std::optional<AxisRef> common_prefix(const AxisRef& a, const AxisRef& b);
// Consecutive, a major to b:  "a":(2)4, "a":(8)2 -> true, merged "a":(2)8
bool can_merge(const AxisRef& a, const AxisRef& b);
AxisRef merge(const AxisRef& a, const AxisRef& b);

// Lists, major to minor.
int64_t total_size(const AxisList& axes);
bool overlaps_any(const AxisRef& ref, const AxisList& axes);
// The longest common prefix; the last element may be a common prefix of two sub-axes.
AxisList common_prefix(const AxisList& a, const AxisList& b);
bool is_prefix_of(const AxisList& a, const AxisList& b);
// Joins neighbours that can merge.
void merge_neighbours(AxisList& axes);
// Appends, merging with the last if possible.
void append_axis(AxisList& axes, const AxisRef& ref);

// `"x"` or `"x":(2)4`
std::string to_string(const AxisRef& ref, const Mesh& mesh);
// `"x", "y":(1)2`
std::string to_string(const AxisList& axes, const Mesh& mesh);
// Throws UserError if pre and size do not fit the axis of the mesh.
void verify(const AxisRef& ref, const Mesh& mesh);

// The coordinate of the device at `position` along `ref`, in [0, ref.size).
int64_t coordinate(const AxisRef& ref, const Mesh& mesh, int64_t position);
// The mixed-radix coordinate along all of `axes`, major to minor, in [0, total_size(axes)).
int64_t coordinate(const AxisList& axes, const Mesh& mesh, int64_t position);

}  // namespace cleave
