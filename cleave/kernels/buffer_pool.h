#pragma once

#include <cstddef>
#include <memory>

namespace cleave {

// Large blocks of memory, kept for the next array of that size: pages that the system has to clear
// and map cost several times what an elementwise op costs. At most `limit` bytes are kept; what
// comes back beyond that goes to the system. Safe to use from several threads.
class BufferPool {
 public:
  explicit BufferPool(size_t limit);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  std::byte* take(size_t bytes);
  void give(std::byte* block, size_t bytes);  // with the size that was asked for
  size_t kept_bytes() const;
  void release();  // gives all that is kept to the system

  // What a block of at least this many bytes really holds: four steps between powers of two, so
  // that sizes that differ a little share blocks.  5 MB -> 5 MiB, 65 KB -> 80 KiB
  static size_t size_class(size_t bytes);

 private:
  struct Lists;
  std::unique_ptr<Lists> lists_;
};

}  // namespace cleave
