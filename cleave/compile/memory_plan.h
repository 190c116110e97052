#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cleave {

// A piece of memory that is needed from one step of a program to another, both included.
struct MemoryRequest {
  size_t bytes = 0;
  int64_t begin = 0, end = 0;
};

// Where each piece lies in one arena: pieces that are needed at the same time do not overlap.
struct MemoryPlan {
  std::vector<size_t> offsets;  // by request; multiples of 64
  size_t bytes = 0;             // of the arena
  size_t lower_bound = 0;       // the most that is needed at one step
};

// Large pieces first, each at the lowest place that is free during its life: usually within a few
// percent of the bound.
//   {100 bytes, steps 0-1}, {100, 1-2}, {100, 2-3}  ->  offsets 0, 128, 0
MemoryPlan plan_memory(const std::vector<MemoryRequest>& requests);

}  // namespace cleave
