#include "cleave/spmd/axis_difference.h"

#include <algorithm>

namespace cleave {

AxisList difference(const AxisList& a, const AxisList& b) {
  AxisList rest;
  for (const AxisRef& ref : a) {
    AxisList parts = {ref};
    for (const AxisRef& taken : b) {
      AxisList left;
      for (const AxisRef& part : parts) {
        if (!overlaps(part, taken)) {
          left.push_back(part);
          continue;
        }
        if (auto before = prefix_without_overlap(part, taken)) left.push_back(*before);
        if (auto after = suffix_without_overlap(part, taken)) left.push_back(*after);
      }
      parts = std::move(left);
    }
    rest.insert(rest.end(), parts.begin(), parts.end());
  }
  std::sort(rest.begin(), rest.end());
  merge_neighbours(rest);
  return rest;
}

AxisList suffix_beyond(const AxisList& whole, const AxisList& prefix) {
  AxisList rest;
  for (const AxisRef& ref : whole) {
    const AxisList left = difference({ref}, prefix);
    rest.insert(rest.end(), left.begin(), left.end());
  }
  return rest;
}

}  // namespace cleave
