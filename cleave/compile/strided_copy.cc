#include "cleave/compile/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cleave/kernels/transpose.h"

namespace cleave {
namespace {

struct Element16 {
  uint64_t low, high;
};

}  // namespace

StridedCopy::StridedCopy(const Shape& shape, const Shape& from_strides, const Shape& to_strides,
                         int element_size)
    : element_size_(element_size), count_(num_elements(shape)) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) dims_.push_back({shape[d], from_strides[d], to_strides[d]});
  // Those that step farthest in the target go outside.
  std::stable_sort(dims_.begin(), dims_.end(),
                   [](const Dim& a, const Dim& b) { return std::abs(a.to) > std::abs(b.to); });
  std::vector<Dim> merged;
  for (const Dim& dim : dims_) {
    if (!merged.empty() && merged.back().from == dim.from * dim.size &&
        merged.back().to == dim.to * dim.size)
      merged.back() = {merged.back().size * dim.size, dim.from, dim.to};
    else
      merged.push_back(dim);
  }
  dims_ = std::move(merged);
  // The dimension that is dense in the source stands beside the one that is dense in the target.
  if (dims_.size() >= 3 && std::abs(dims_.back().from) > 1) {
    size_t dense = dims_.size() - 1;
    for (size_t d = 0; d < dims_.size(); ++d)
      if (dims_[d].from != 0 && std::abs(dims_[d].from) < std::abs(dims_[dense].from)) dense = d;
    if (dense + 2 < dims_.size()) {
      const Dim dim = dims_[dense];
      dims_.erase(dims_.begin() + static_cast<std::ptrdiff_t>(dense));
      dims_.insert(dims_.end() - 1, dim);
    }
  }
}

template <typename T>
void StridedCopy::run_as(const T* from, T* to) const {
  if (dims_.empty()) {
    *to = *from;
    return;
  }
  const Dim inner = dims_.back();
  const Dim next = dims_.size() > 1 ? dims_[dims_.size() - 2] : Dim{1, 0, 0};
  const size_t outer = dims_.size() > 1 ? dims_.size() - 2 : 0;
  const bool crossed = inner.from != 1 && inner.from != 0 && dims_.size() > 1;
  constexpr int64_t kTile = 16;
  constexpr size_t kMostDims = 16;
  int64_t index[kMostDims] = {};
  while (true) {
    if (crossed && next.from == 1 && inner.to == 1) {
      transpose_plane(from, inner.from, to, next.to, next.size, inner.size);
    } else if (crossed) {
      for (int64_t i0 = 0; i0 < next.size; i0 += kTile)
        for (int64_t j0 = 0; j0 < inner.size; j0 += kTile) {
          const int64_t i1 = std::min(next.size, i0 + kTile), j1 = std::min(inner.size, j0 + kTile);
          for (int64_t i = i0; i < i1; ++i) {
            const T* source = from + i * next.from;
            T* target = to + i * next.to;
            for (int64_t j = j0; j < j1; ++j) target[j * inner.to] = source[j * inner.from];
          }
        }
    } else {
      for (int64_t i = 0; i < next.size; ++i) {
        const T* source = from + i * next.from;
        T* target = to + i * next.to;
        if (inner.from == 1 && inner.to == 1)
          std::memcpy(target, source, static_cast<size_t>(inner.size) * sizeof(T));
        else if (inner.from == 0 && inner.to == 1)
          std::fill_n(target, inner.size, *source);
        else
          for (int64_t j = 0; j < inner.size; ++j) target[j * inner.to] = source[j * inner.from];
      }
    }
    size_t d = outer;
    while (d-- > 0) {
      from += dims_[d].from;
      to += dims_[d].to;
      if (++index[d] < dims_[d].size) break;
      from -= dims_[d].from * dims_[d].size;
      to -= dims_[d].to * dims_[d].size;
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

void StridedCopy::run(const std::byte* from, std::byte* to) const {
  if (count_ == 0) return;
  auto as = [&]<typename T>(T) {
    run_as(reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to));
  };
  switch (element_size_) {
    case 1:
      return as(uint8_t{});
    case 2:
      return as(uint16_t{});
    case 4:
      return as(uint32_t{});
    case 8:
      return as(uint64_t{});
    default:
      return as(Element16{});
  }
}

}  // namespace cleave
