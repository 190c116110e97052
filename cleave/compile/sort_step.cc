#include "cleave/compile/sort_step.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "cleave/compile/steps.h"
#include "cleave/core/aligned.h"

namespace cleave {
namespace {

constexpr size_t kMostKeys = 64;

}  // namespace

SortStep::SortStep(RowSort sort, int threads) : sort_(std::move(sort)), threads_(threads) {
  const auto n = static_cast<size_t>(sort_.length);
  keys_at_ = aligned(row_scratch_bytes(sort_.length));
  order_at_ = keys_at_ + sort_.keys.size() * aligned(n * sizeof(uint64_t));
  each_ = order_at_ + aligned(static_cast<size_t>(sort_.count) * sizeof(uint32_t));
}

size_t SortStep::scratch_bytes() const { return each_ * static_cast<size_t>(threads_); }

bool SortStep::run_row(const Frame& frame, int64_t row, std::byte* scratch) const {
  std::array<const uint64_t*, kMostKeys> keys;
  const size_t key_bytes = aligned(static_cast<size_t>(sort_.length) * sizeof(uint64_t));
  for (size_t k = 0; k < sort_.keys.size(); ++k) {
    const RowKey& key = sort_.keys[k];
    const CodeView& view = sort_.operands[key.operand];
    const std::byte* data = frame.data(view) + row * sort_.length * byte_size(view.type.dtype) +
                            key.offset * byte_size(key.dtype);
    if (!key.places_nan && has_nan(key.dtype, data, sort_.length, key.stride)) return false;
    auto* values = reinterpret_cast<uint64_t*>(scratch + keys_at_ + k * key_bytes);
    sort_keys(key.dtype, data, sort_.length, key.stride, key.order, values);
    keys[k] = values;
  }
  auto* order = reinterpret_cast<uint32_t*>(scratch + order_at_);
  order_row({keys.data(), sort_.keys.size()}, sort_.length, sort_.count, scratch, order);
  for (size_t i = 0; i < sort_.results.size(); ++i) {
    const int size = byte_size(sort_.results[i].type.dtype);
    permute_row(size, frame.data(sort_.operands[i]) + row * sort_.length * size,
                frame.data(sort_.results[i]) + row * sort_.count * size, order, sort_.count);
  }
  if (sort_.has_indices) {
    auto* indices = reinterpret_cast<int32_t*>(frame.data(sort_.indices)) + row * sort_.count;
    for (int64_t i = 0; i < sort_.count; ++i) indices[i] = static_cast<int32_t>(order[i]);
  }
  return true;
}

CodeStep::Next SortStep::run(Frame& frame) const {
  constexpr int64_t kWorthSharing = 1 << 12;  // elements
  std::atomic<bool> is_sorted{true};
  const int64_t tasks = frame.team && sort_.rows * sort_.length >= kWorthSharing
                            ? std::min<int64_t>(sort_.rows, 4 * threads_)
                            : 1;
  const auto run_task = [&](int64_t task, int worker) {
    const int64_t begin = sort_.rows * task / tasks, end = sort_.rows * (task + 1) / tasks;
    std::byte* const scratch = frame.scratch + each_ * static_cast<size_t>(worker);
    for (int64_t row = begin; row < end && is_sorted; ++row)
      if (!run_row(frame, row, scratch)) is_sorted = false;
  };
  if (frame.team)
    frame.team->run(tasks, run_task);
  else
    run_task(0, 0);
  if (!is_sorted) run_kernel(frame, node, sort_.node_operands, sort_.node_results);
  return Next::Continue;
}

}  // namespace cleave
