#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "../support/random_specs.h"
#include "cleave/core/axis.h"

// The algebra of sub-axes against brute force: a sub-axis is a function from coordinates of an axis
// to [0, size), and every question about two of them is one about those functions.

namespace cleave {
namespace {

AxisRef sub_axis_of(int64_t axis_size) {
  std::vector<AxisRef> all;
  for (int64_t pre = 1; pre <= axis_size; ++pre)
    for (int64_t size = 2; pre * size <= axis_size; ++size)
      if (axis_size % (pre * size) == 0)
        all.push_back({0, static_cast<int32_t>(pre), static_cast<int32_t>(size)});
  return *rc::gen::elementOf(all);
}

std::vector<int64_t> labels(const AxisRef& ref, int64_t axis_size) {
  const Mesh mesh{{"a", axis_size}};
  std::vector<int64_t> result;
  for (int64_t i = 0; i < axis_size; ++i) result.push_back(coordinate(ref, mesh, i));
  return result;
}

// Whether the labels of b are a function of the labels of a.
bool determines(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::map<int64_t, int64_t> seen;
  for (size_t i = 0; i < a.size(); ++i) {
    auto [it, is_new] = seen.emplace(a[i], b[i]);
    if (!is_new && it->second != b[i]) return false;
  }
  return true;
}

std::vector<int64_t> joined(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                            int64_t b_size) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(a[i] * b_size + b[i]);
  return result;
}

int64_t axis_size() { return *rc::gen::element<int64_t>(2, 4, 6, 8, 12, 16, 24, 30, 36); }

RC_GTEST_PROP(AxisAlgebra, CoordinateIsTheMiddleDigit, ()) {
  const int64_t n = axis_size();
  const AxisRef ref = sub_axis_of(n);
  const std::vector<int64_t> label = labels(ref, n);
  const int64_t minor = n / (ref.pre * ref.size);
  for (int64_t i = 0; i < n; ++i) RC_ASSERT(label[i] == i / minor % ref.size);
}

RC_GTEST_PROP(AxisAlgebra, ContainsIffOneDeterminesTheOther, ()) {
  const int64_t n = axis_size();
  const AxisRef a = sub_axis_of(n), b = sub_axis_of(n);
  RC_ASSERT(contains(a, b) == determines(labels(a, n), labels(b, n)));
}

RC_GTEST_PROP(AxisAlgebra, PrefixIsTheMajorDigits, ()) {
  const int64_t n = axis_size();
  const AxisRef a = sub_axis_of(n), b = sub_axis_of(n);
  bool expected = a.size <= b.size && b.size % a.size == 0;
  const std::vector<int64_t> la = labels(a, n), lb = labels(b, n);
  for (int64_t i = 0; i < n && expected; ++i) expected = la[i] == lb[i] / (b.size / a.size);
  RC_ASSERT(is_prefix_of(a, b) == expected);
  bool suffix = a.size <= b.size && b.size % a.size == 0;
  for (int64_t i = 0; i < n && suffix; ++i) suffix = la[i] == lb[i] % a.size;
  RC_ASSERT(is_suffix_of(a, b) == suffix);
}

RC_GTEST_PROP(AxisAlgebra, DisjointOnesAreIndependent, ()) {
  const int64_t n = axis_size();
  const AxisRef a = sub_axis_of(n), b = sub_axis_of(n);
  RC_PRE(can_coexist(a, b));
  const std::vector<int64_t> la = labels(a, n), lb = labels(b, n);
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (int64_t i = 0; i < n; ++i) pairs.insert({la[i], lb[i]});
  RC_ASSERT(overlaps(a, b) == (pairs.size() < static_cast<size_t>(a.size * b.size)));
}

RC_GTEST_PROP(AxisAlgebra, OverlapAndTheRestMakeUpTheAxis, ()) {
  const int64_t n = axis_size();
  const AxisRef a = sub_axis_of(n), b = sub_axis_of(n);
  const auto common = overlap(a, b);
  RC_ASSERT(common.has_value() == (overlaps(a, b) && can_coexist(a, b)));
  if (!common) return;
  RC_ASSERT(contains(a, *common) && contains(b, *common));
  const auto before = prefix_without_overlap(a, b), after = suffix_without_overlap(a, b);
  int64_t size = common->size;
  std::vector<int64_t> digits(n, 0);
  for (const auto& part : {before, std::optional<AxisRef>(common), after}) {
    if (!part || part == a) continue;
    RC_ASSERT(contains(a, *part));
    digits = joined(digits, labels(*part, n), part->size);
    if (part != common) size *= part->size;
  }
  RC_ASSERT(size == a.size);
  if (*common != a) RC_ASSERT(digits == labels(a, n));
}

RC_GTEST_PROP(AxisAlgebra, MergeJoinsDigits, ()) {
  const int64_t n = axis_size();
  const AxisRef a = sub_axis_of(n), b = sub_axis_of(n);
  RC_ASSERT(can_merge(a, b) == (a.pre * a.size == b.pre));
  if (!can_merge(a, b)) return;
  RC_ASSERT(labels(merge(a, b), n) == joined(labels(a, n), labels(b, n), b.size));
}

RC_GTEST_PROP(AxisAlgebra, ListsAreMixedRadixNumbers, ()) {
  const MeshPtr mesh = random::mesh();
  AxisList axes = random::disjoint_axes(*mesh, true);
  AxisList merged = axes;
  merge_neighbours(merged);
  RC_ASSERT(total_size(merged) == total_size(axes));
  std::map<int64_t, int> seen;
  for (int64_t p = 0; p < mesh->num_devices(); ++p) {
    int64_t expected = 0;
    for (const AxisRef& ref : axes) expected = expected * ref.size + coordinate(ref, *mesh, p);
    RC_ASSERT(coordinate(axes, *mesh, p) == expected);
    RC_ASSERT(coordinate(merged, *mesh, p) == expected);
    ++seen[expected];
  }
  for (const auto& [value, count] : seen)
    RC_ASSERT(count * total_size(axes) == mesh->num_devices());
}

RC_GTEST_PROP(AxisAlgebra, CommonPrefixOfListsIsTheLongest, ()) {
  const int64_t n = axis_size();
  const Mesh mesh{{"a", n}, {"b", 4}};
  auto list = [&] {
    AxisList axes;
    if (*rc::gen::arbitrary<bool>()) axes.push_back(whole_axis(mesh, "b"));
    axes.push_back(sub_axis_of(n));
    return axes;
  };
  const AxisList a = list(), b = list();
  const AxisList prefix = common_prefix(a, b);
  RC_ASSERT(is_prefix_of(prefix, a));
  RC_ASSERT(is_prefix_of(prefix, b));
  RC_ASSERT(is_prefix_of(a, b) == (common_prefix(a, b) == a));
}

}  // namespace
}  // namespace cleave
