#include "cleave/runtime/device_memory.h"

#include <mutex>
#include <vector>

#include "cleave/runtime/tensor.h"

namespace cleave {
namespace {

struct Counts {
  std::mutex mutex;
  std::vector<int64_t> bytes;
};

// Never destroyed: tensors in static storage may go after it would.
Counts& counts() {
  static Counts& counts = *new Counts;
  return counts;
}

}  // namespace

void add_device_bytes(size_t device, int64_t bytes) {
  if (bytes == 0) return;
  std::lock_guard lock(counts().mutex);
  if (counts().bytes.size() <= device) counts().bytes.resize(device + 1);
  counts().bytes[device] += bytes;
}

std::vector<int64_t> memory_in_use() {
  std::lock_guard lock(counts().mutex);
  return counts().bytes;
}

}  // namespace cleave
