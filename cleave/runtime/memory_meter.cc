#include "cleave/runtime/memory_meter.h"

#include <algorithm>

#include "cleave/kernels/allocation_count.h"

namespace cleave {

int64_t storage_bytes(const Array& array) {
  if (array.num_elements() == 0) return 0;
  int64_t extent = 1;
  for (size_t d = 0; d < array.rank(); ++d)
    extent += (array.shape()[d] - 1) * std::abs(array.strides()[d]);
  return std::min(extent, array.num_elements()) * byte_size(array.dtype());
}

void MemoryMeter::hold(const Array& array) {
  if (!array.valid()) return;
  Held& held = held_[array.buffer().get()];
  ++held.count;
  const int64_t bytes = storage_bytes(array);
  if (bytes <= held.bytes) return;
  live_ += bytes - held.bytes;
  held.bytes = bytes;
}

void MemoryMeter::release(const Array& array) {
  if (!array.valid()) return;
  const auto it = held_.find(array.buffer().get());
  if (it == held_.end() || --it->second.count > 0) return;
  live_ -= it->second.bytes;
  held_.erase(it);
}

int64_t MemoryMeter::holders(const Array& array) const {
  const auto it = held_.find(array.buffer().get());
  return it == held_.end() ? 0 : it->second.count;
}

MemoryMeter::Mark MemoryMeter::begin() {
  AllocationCount& count = thread_allocations();
  const Mark mark{live_, count.live, count.peak};
  count.peak = count.live;
  return mark;
}

void MemoryMeter::end(const Mark& mark, NodeId node, bool counts_allocations, int64_t taken_over) {
  AllocationCount& count = thread_allocations();
  reach(live_ - taken_over, node);
  if (counts_allocations) reach(mark.live + count.peak - mark.allocated - taken_over, node);
  count.peak = std::max(count.peak, mark.outer_peak);
  if (static_cast<int64_t>(timeline_.size()) == note_at_)
    for (const auto& [buffer, held] : held_) noted_.emplace_back(buffer, held.bytes);
  timeline_.push_back(live_ - taken_over);
}

void MemoryMeter::reach(int64_t bytes, NodeId node) {
  if (bytes <= peak_) return;
  peak_ = bytes;
  peak_at_ = node;
  peak_step_ = static_cast<int64_t>(timeline_.size());
}

int64_t MemoryUse::fullest_device() const {
  return std::max_element(peaks.begin(), peaks.end()) - peaks.begin();
}

int64_t MemoryUse::peak() const { return peaks.empty() ? 0 : peaks[fullest_device()]; }

}  // namespace cleave
