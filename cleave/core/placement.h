#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/sharding.h"

namespace cleave {

// What one mesh axis does to a tensor, the view of a spec per axis:
//   R        every device along the axis holds the same
//   S(d)     dimension d is split along the axis
//   S(d, k)  split along the axis after a split into k by axes that come later in the mesh (strided)
//   P(sum)   every device holds a part; the value is the reduction of the parts
struct Placement {
  enum class Kind : uint8_t { Replicate, Shard, Partial };

  Kind kind = Kind::Replicate;
  int64_t dim = 0;                  // of Shard
  int64_t split = 1;                // of Shard: > 1 where strided
  ReduceOp reduce = ReduceOp::Sum;  // of Partial

  static Placement replicate() { return {}; }
  static Placement shard(int64_t dim, int64_t split = 1) { return {Kind::Shard, dim, split, ReduceOp::Sum}; }
  static Placement partial(ReduceOp op) { return {Kind::Partial, 0, 1, op}; }

  bool is_replicate() const { return kind == Kind::Replicate; }
  bool is_shard() const { return kind == Kind::Shard; }
  bool is_partial() const { return kind == Kind::Partial; }
  bool operator==(const Placement&) const = default;
};

std::string to_string(const Placement& placement);  // "R", "S(0)", "S(0, 2)", "P(sum)"
Placement parse_placement(std::string_view text);   // throws UserError

}  // namespace cleave
