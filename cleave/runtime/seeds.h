#pragma once

#include <cstdint>

namespace cleave {

// The seed that the next draw without one takes on this thread (cleave/runtime/ops_random.h).
uint64_t& next_seed();

// While it lives, draws without a seed count from `begin`; afterwards the count is what it was
// before.
class KeepSeeds {
 public:
  explicit KeepSeeds(uint64_t begin) : seed_(next_seed()) { next_seed() = begin; }
  ~KeepSeeds() { next_seed() = seed_; }
  KeepSeeds(const KeepSeeds&) = delete;
  KeepSeeds& operator=(const KeepSeeds&) = delete;

 private:
  uint64_t seed_;
};

}  // namespace cleave
