#pragma once

#include <cstdint>

namespace cleave {

// Bytes that the calling thread has allocated for arrays, less those that it has freed. A kernel
// that runs on one thread and keeps nothing back leaves `live` higher by its results alone; `peak`
// minus the `live` before it is what it needed. Either may be negative: a thread may free what
// another one allocated.
struct AllocationCount {
  int64_t live = 0;
  int64_t peak = 0;  // since it was last set
};
AllocationCount& thread_allocations();

}  // namespace cleave
