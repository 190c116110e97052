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
  if (keeps_history_)
    open_[array.buffer().get()].push_back(
        {array.buffer().get(), bytes - held.bytes, static_cast<int64_t>(timeline_.size()), 0});
  live_ += bytes - held.bytes;
  held.bytes = bytes;
}

void MemoryMeter::release(const Array& array) {
  if (!array.valid()) return;
  const auto it = held_.find(array.buffer().get());
  if (it == held_.end() || --it->second.count > 0) return;
  live_ -= it->second.bytes;
  if (keeps_history_) close(it->first);
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

// Steps end in the order of the timeline: what is released now was there at the last one.
void MemoryMeter::close(const void* buffer) {
  const auto open = open_.find(buffer);
  if (open == open_.end()) return;
  for (Span& span : open->second) {
    span.last = static_cast<int64_t>(timeline_.size()) - 1;
    if (span.first <= span.last && span.bytes > 0) closed_.push_back(span);
  }
  open_.erase(open);
}

std::vector<MemoryMeter::Span> MemoryMeter::spans() const {
  std::vector<Span> all = closed_;
  for (const auto& [buffer, spans] : open_)
    for (Span span : spans) {
      span.last = static_cast<int64_t>(timeline_.size()) - 1;
      if (span.first <= span.last && span.bytes > 0) all.push_back(span);
    }
  return all;
}

// A result that takes the place of an operand is there when the operand has gone.
void MemoryMeter::note_step(NodeId node, int64_t reached, int64_t taken_over, const void* result) {
  steps_.push_back({node, reached});
  if (taken_over == 0) return;
  const auto open = open_.find(result);
  if (open == open_.end()) return;
  Span& made = open->second.back();
  made.first = static_cast<int64_t>(timeline_.size()) + 1;
}

void MemoryMeter::end(const Mark& mark, NodeId node, bool counts_allocations, int64_t taken_over,
                      const void* result) {
  AllocationCount& count = thread_allocations();
  int64_t reached = live_ - taken_over;
  if (counts_allocations)
    reached = std::max(reached, mark.live + count.peak - mark.allocated - taken_over);
  reach(reached, node);
  if (keeps_history_) note_step(node, reached, taken_over, result);
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
