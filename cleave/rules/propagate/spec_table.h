#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "cleave/core/sharding.h"

namespace cleave {

// Holds every different sharding once, by a number: propagation compares and stores numbers, and
// looks a spec up only when it changes one.
class SpecTable {
 public:
  static constexpr int32_t kNone = -1;

  int32_t intern(ShardingSpec spec);
  const ShardingSpec& operator[](int32_t id) const { return specs_[id]; }
  const ShardingSpec* find(int32_t id) const { return id < 0 ? nullptr : &specs_[id]; }
  size_t size() const { return specs_.size(); }

 private:
  std::deque<ShardingSpec> specs_;  // addresses stay
  std::unordered_multimap<size_t, int32_t> by_hash_;
};

// Same mesh object, or the same axes and devices.
bool same_mesh(const MeshPtr& a, const MeshPtr& b);

}  // namespace cleave
