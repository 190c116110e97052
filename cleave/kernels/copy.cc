#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/kernels/array.h"
#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/transpose.h"

namespace cleave {
namespace {

struct Dim {
  int64_t size, from, to;  // strides in elements
};

// The dimensions of both views, the target's largest stride first; neighbours that lie behind each
// other in both are merged.
std::vector<Dim> common_dims(const Array& from, const Array& to) {
  std::vector<Dim> dims;
  for (size_t d = 0; d < from.rank(); ++d)
    if (from.shape()[d] != 1) dims.push_back({from.shape()[d], from.strides()[d], to.strides()[d]});
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim& a, const Dim& b) { return std::abs(a.to) > std::abs(b.to); });
  std::vector<Dim> merged;
  for (const Dim& dim : dims) {
    if (!merged.empty() && merged.back().from == dim.from * dim.size &&
        merged.back().to == dim.to * dim.size) {
      merged.back() = {merged.back().size * dim.size, dim.from, dim.to};
    } else {
      merged.push_back(dim);
    }
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  return merged;
}

// Calls visit(offset in the source, offset in the target) for all indices of the dimensions.
template <typename Visit>
void for_each_offset(const std::vector<Dim>& dims, Visit visit) {
  std::vector<int64_t> index(dims.size());
  int64_t from = 0, to = 0;
  while (true) {
    visit(from, to);
    size_t d = dims.size();
    while (d-- > 0) {
      from += dims[d].from;
      to += dims[d].to;
      if (++index[d] < dims[d].size) break;
      from -= dims[d].from * dims[d].size;
      to -= dims[d].to * dims[d].size;
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

template <typename T>
void copy_row(const T* from, T* to, const Dim& dim) {
  if (dim.from == 1 && dim.to == 1) {
    std::memcpy(to, from, static_cast<size_t>(dim.size) * sizeof(T));
  } else if (dim.from == 0 && dim.to == 1) {
    std::fill_n(to, dim.size, *from);
  } else {
    for (int64_t i = 0; i < dim.size; ++i) to[i * dim.to] = from[i * dim.from];
  }
}

constexpr int64_t kTile = 16;

template <typename T>
void copy_tile(const T* from, T* to, const Dim& row, const Dim& column) {
  T tile[kTile][kTile];
  for (int64_t j = 0; j < column.size; ++j)
    for (int64_t i = 0; i < row.size; ++i) tile[i][j] = from[j * column.from + i * row.from];
  for (int64_t i = 0; i < row.size; ++i)
    for (int64_t j = 0; j < column.size; ++j) to[i * row.to + j * column.to] = tile[i][j];
}

// The elements of a plane whose rows are short steps in the source and columns short steps in the
// target: tile by tile, so that every cache line is read and written once; tiles by blocks, so that
// the pages of a block stay known.
template <typename T>
void copy_plane(const T* from, T* to, const Dim& row, const Dim& column) {
  if (row.from == 1 && column.to == 1) {
    transpose_plane(from, column.from, to, row.to, row.size, column.size);
    return;
  }
  constexpr int64_t kBlock = 8 * kTile;
  for (int64_t cc = 0; cc < column.size; cc += kBlock)
    for (int64_t rr = 0; rr < row.size; rr += kBlock)
      for (int64_t c = cc; c < std::min(cc + kBlock, column.size); c += kTile)
        for (int64_t r = rr; r < std::min(rr + kBlock, row.size); r += kTile)
          copy_tile(from + c * column.from + r * row.from, to + c * column.to + r * row.to,
                    {std::min(kTile, row.size - r), row.from, row.to},
                    {std::min(kTile, column.size - c), column.from, column.to});
}

template <typename T>
void copy(const Array& from, const Array& to) {
  const T* source = reinterpret_cast<const T*>(from.raw());
  T* target = reinterpret_cast<T*>(to.raw());
  std::vector<Dim> dims = common_dims(from, to);
  const Dim column = dims.back();
  dims.pop_back();
  // The shortest step through the source.
  const auto row = std::min_element(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) {
    return std::abs(a.from) < std::abs(b.from);
  });
  const bool crossed = row != dims.end() && row->from != 0 && column.from != 0 && row->size >= 4 &&
                       column.size >= 4 && std::abs(row->from) < std::abs(column.from);
  if (crossed) {
    const Dim plane_row = *row;
    dims.erase(row);
    for_each_offset(
        dims, [&](int64_t a, int64_t b) { copy_plane(source + a, target + b, plane_row, column); });
  } else {
    for_each_offset(dims, [&](int64_t a, int64_t b) { copy_row(source + a, target + b, column); });
  }
}

}  // namespace

void copy_elements(const Array& from, const Array& to) {
  internal_check(from.dtype() == to.dtype() && from.shape() == to.shape(),
                 "copy between unlike arrays");
  if (from.num_elements() == 0) return;
  if (from.is_contiguous() && to.is_contiguous()) {
    std::memcpy(to.raw(), from.raw(), from.num_bytes());
    return;
  }
  visit_size(from.dtype(), [&](auto tag) { copy<typename decltype(tag)::type>(from, to); });
}

}  // namespace cleave
