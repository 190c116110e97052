#include "tests/compile/count_allocations.h"

#include <link.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};

// Where the code of oneDNN lies.
struct Range {
  uintptr_t begin = 0, end = 0;
};
std::atomic<bool> is_range_known{false};
Range onednn;

int note_onednn(dl_phdr_info* info, size_t, void*) {
  if (!std::strstr(info->dlpi_name, "dnnl")) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && (header.p_flags & PF_X))
      onednn = {info->dlpi_addr + header.p_vaddr,
                info->dlpi_addr + header.p_vaddr + header.p_memsz};
  }
  return 1;
}

void count(const void* caller) {
  if (!is_range_known.exchange(true)) dl_iterate_phdr(note_onednn, nullptr);
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (at < onednn.begin || at >= onednn.end) ++allocations;
}

}  // namespace

namespace cleave {
int64_t allocation_count() { return allocations; }
}  // namespace cleave

// Every allocation of this program is counted.
void* operator new(size_t size) {
  count(__builtin_return_address(0));
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  count(__builtin_return_address(0));
  return std::malloc(size ? size : 1);
}
void* operator new(size_t size, std::align_val_t alignment) {
  count(__builtin_return_address(0));
  const auto align = static_cast<size_t>(alignment);
  if (void* p = std::aligned_alloc(align, (size + align - 1) / align * align + align)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
