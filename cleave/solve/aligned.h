#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace cleave::solver {

// Tables are padded to rows of kLanes entries and start on cache lines, so that a row is a whole
// number of vectors.
inline constexpr int kLanes = 8;
inline constexpr int padded(int k) { return (k + kLanes - 1) / kLanes * kLanes; }

// kLanes numbers that are added and compared together.
template <class Real>
struct Vector {
  typedef Real type __attribute__((vector_size(kLanes * sizeof(Real)), may_alias));
};

template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* pointer, std::size_t) { ::operator delete (pointer, std::align_val_t{64}); }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace cleave::solver
