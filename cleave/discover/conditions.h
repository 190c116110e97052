#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/discover/operator.h"

namespace cleave {

// One point of a sweep: what a condition may talk about, and whether the rule held there.
struct SweepPoint {
  AttrMap attrs;
  std::optional<int64_t> d;  // the variable of the rule, if it has one
  int64_t size_of_d = 0;
  int64_t rank = 0;
  bool valid = false;
  Shape shape = {};  // of operand 0
  int w = 0;         // the number of devices if it matters; then a condition may speak of shards
};

// Dimensions that attributes name, counted from the front: dim=-1 of rank 3 is dim=2.
void count_from_front(AttrMap& attrs, const std::vector<std::string>& dim_attrs, size_t rank);

// The smallest condition that is true exactly at the valid points: "" if all are valid, nothing
// if no condition of up to three terms (or two alternatives) explains them.
//   {d=0: no, d=1: yes} with dim=0, {d=0: yes, d=1: no} with dim=1   ->   "d != dim"
//   {d=0: no, d=1: yes} with dim=0 alone                             ->   "d > dim"
// If two terms are true at the same points, the one that promises less is taken.
std::optional<std::string> smallest_condition(const std::vector<SweepPoint>& points,
                                              const std::vector<std::string>& dim_attrs);

// If no condition is exact: one on the sizes of shards that is true at valid points only, and at as
// many of them as possible.
//   a size of 3 over 4 devices happens to be right, over 2 not   ->   "size(d) % w == 0"
std::optional<std::string> sufficient_condition(const std::vector<SweepPoint>& points,
                                                const std::vector<std::string>& dim_attrs);

// Whether a word stands in a condition by itself: of "keepdim and d != 1" keepdim does, dim does
// not.
bool mentions_word(const std::string& condition, const std::string& name);

// Whether a condition speaks of the number of devices.
bool depends_on_world(const std::string& condition);

}  // namespace cleave
