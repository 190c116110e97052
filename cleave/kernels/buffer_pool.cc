#include "cleave/kernels/buffer_pool.h"

#include <sys/mman.h>

#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "cleave/core/aligned.h"
#include "cleave/core/available_memory.h"

namespace cleave {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLooked = size_t{64} << 20;  // from here on, the memory left is looked at first

std::align_val_t alignment_of(size_t size) {
  return std::align_val_t{size >= kHugePage ? kHugePage : kAlignment};
}

std::byte* take_from_system(size_t size) {
  void* block = ::operator new(size, alignment_of(size));
  if (size >= kHugePage) madvise(block, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(block);
}

void give_to_system(std::byte* block, size_t size) { ::operator delete(block, alignment_of(size)); }

}  // namespace

struct BufferPool::Lists {
  mutable std::mutex mutex;
  size_t limit;
  size_t kept = 0;
  std::map<size_t, std::vector<std::byte*>> free;  // by size class
};

BufferPool::BufferPool(size_t limit) : lists_(std::make_unique<Lists>()) { lists_->limit = limit; }

BufferPool::~BufferPool() { release(); }

void BufferPool::release() {
  std::lock_guard lock(lists_->mutex);
  for (auto& [size, blocks] : lists_->free)
    for (std::byte* block : blocks) give_to_system(block, size);
  lists_->free.clear();
  lists_->kept = 0;
}

size_t BufferPool::size_class(size_t bytes) {
  if (bytes <= 4) return 4;
  const size_t step = std::bit_ceil(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

std::byte* BufferPool::take(size_t bytes) {
  const size_t size = size_class(bytes);
  {
    std::lock_guard lock(lists_->mutex);
    auto it = lists_->free.find(size);
    if (it != lists_->free.end() && !it->second.empty()) {
      std::byte* block = it->second.back();
      it->second.pop_back();
      lists_->kept -= size;
      return block;
    }
  }
  // Blocks that are kept for arrays of other sizes are memory too.
  if (size >= kLooked && static_cast<int64_t>(size) > available_memory()) release();
  check_fits(static_cast<int64_t>(size), "an array");
  return take_from_system(size);
}

void BufferPool::give(std::byte* block, size_t bytes) {
  const size_t size = size_class(bytes);
  {
    std::lock_guard lock(lists_->mutex);
    if (lists_->kept + size <= lists_->limit) {
      lists_->free[size].push_back(block);
      lists_->kept += size;
      return;
    }
  }
  give_to_system(block, size);
}

size_t BufferPool::kept_bytes() const {
  std::lock_guard lock(lists_->mutex);
  return lists_->kept;
}

}  // namespace cleave
