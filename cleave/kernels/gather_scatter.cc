#include "cleave/kernels/gather_scatter.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/kernels/float16.h"

namespace cleave {
namespace {

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

template <typename T>
std::vector<int64_t> widen(const Array& array) {
  const Array packed = array.contiguous();
  const T* data = packed.data<T>();
  std::vector<int64_t> values(static_cast<size_t>(packed.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, uint64_t>)
      values[i] = static_cast<int64_t>(
          std::min<uint64_t>(data[i], std::numeric_limits<int64_t>::max() / 2));
    else
      values[i] = static_cast<int64_t>(data[i]);
  }
  return values;
}

std::vector<int64_t> read_indices(const Array& array) {
  switch (array.dtype()) {
    case DType::Bool:
    case DType::U8:
      return widen<uint8_t>(array);
    case DType::U16:
      return widen<uint16_t>(array);
    case DType::U32:
      return widen<uint32_t>(array);
    case DType::U64:
      return widen<uint64_t>(array);
    case DType::I8:
      return widen<int8_t>(array);
    case DType::I16:
      return widen<int16_t>(array);
    case DType::I32:
      return widen<int32_t>(array);
    case DType::I64:
      return widen<int64_t>(array);
    default:
      throw_user("indices of {} are no integers", name(array.dtype()));
  }
}

// Walks over the indices. For each: the start of its window in the operand, and the position of the
// window in the slices.
template <typename Visit>
void walk_windows(size_t operand_rank, const Array& indices, const Shape& slices_shape,
                  const WindowMap& map, Visit visit) {
  const std::vector<int64_t> values = read_indices(indices);
  const Shape index_strides = row_major_strides(indices.shape());
  const auto indices_rank = static_cast<int64_t>(indices.rank());
  std::vector<int64_t> batch_dims;  // of slices
  for (int64_t d = 0; d < static_cast<int64_t>(slices_shape.size()); ++d)
    if (!contains(map.window_dims, d)) batch_dims.push_back(d);
  std::vector<int64_t> index_dims;  // of indices, for each of batch_dims
  for (int64_t d = 0; d < indices_rank; ++d)
    if (d != map.index_vector_dim) index_dims.push_back(d);
  internal_check(batch_dims.size() == index_dims.size(), "gather: batch dimensions do not match");
  const int64_t component_stride =
      map.index_vector_dim < indices_rank ? index_strides[map.index_vector_dim] : 0;
  std::vector<int64_t> batching_of(batch_dims.size(), -1);  // operand dimension, where explicit
  for (size_t b = 0; b < batch_dims.size(); ++b)
    for (size_t k = 0; k < map.indices_batching_dims.size(); ++k)
      if (map.indices_batching_dims[k] == index_dims[b])
        batching_of[b] = map.operand_batching_dims[k];

  for (int64_t d : batch_dims)
    if (slices_shape[d] == 0) return;
  Shape start(operand_rank), position(slices_shape.size(), 0);
  while (true) {
    int64_t at = 0;
    for (size_t b = 0; b < batch_dims.size(); ++b)
      at += position[batch_dims[b]] * index_strides[index_dims[b]];
    std::fill(start.begin(), start.end(), 0);
    for (size_t k = 0; k < map.index_map.size(); ++k)
      start[map.index_map[k]] = values[at + static_cast<int64_t>(k) * component_stride];
    for (size_t b = 0; b < batch_dims.size(); ++b)
      if (batching_of[b] >= 0) start[batching_of[b]] = position[batch_dims[b]];
    visit(start, position);
    size_t b = batch_dims.size();
    while (b-- > 0) {
      if (++position[batch_dims[b]] < slices_shape[batch_dims[b]]) break;
      position[batch_dims[b]] = 0;
    }
    if (b == SIZE_MAX) return;
  }
}

int64_t offset_of(const Shape& index, const Shape& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

// Two strided views of one shape, walked together row by row; unit dimensions are dropped and
// neighbouring ones merged where both views allow it.
struct PairedRows {
  Shape sizes, a_strides, b_strides;  // outer dimensions
  int64_t row = 1, a_step = 0, b_step = 0;
  bool empty = false;

  PairedRows(const Shape& shape, const Shape& a, const Shape& b) {
    for (size_t d = 0; d < shape.size(); ++d) {
      empty |= shape[d] == 0;
      if (shape[d] == 1) continue;
      if (!sizes.empty() && a_strides.back() == a[d] * shape[d] &&
          b_strides.back() == b[d] * shape[d]) {
        sizes.back() *= shape[d];
        a_strides.back() = a[d];
        b_strides.back() = b[d];
      } else {
        sizes.push_back(shape[d]);
        a_strides.push_back(a[d]);
        b_strides.push_back(b[d]);
      }
    }
    if (sizes.empty()) return;
    row = sizes.back();
    a_step = a_strides.back();
    b_step = b_strides.back();
    sizes.pop_back();
  }

  template <typename Visit>
  void walk(Visit visit) const {
    if (empty) return;
    if (sizes.empty()) return visit(0, 0);
    Shape index(sizes.size(), 0);
    int64_t a = 0, b = 0;
    while (true) {
      visit(a, b);
      size_t d = sizes.size();
      while (d-- > 0) {
        a += a_strides[d];
        b += b_strides[d];
        if (++index[d] < sizes[d]) break;
        a -= a_strides[d] * sizes[d];
        b -= b_strides[d] * sizes[d];
        index[d] = 0;
      }
      if (d == SIZE_MAX) return;
    }
  }
};

Shape pick(const Shape& from, const std::vector<int64_t>& dims) {
  Shape result;
  for (int64_t d : dims) result.push_back(from[d]);
  return result;
}

template <typename T>
void gather_typed(const Array& operand, const Array& indices, const WindowMap& map,
                  const Shape& window, const Array& result) {
  const std::vector<int64_t> dims = map.window_operand_dims(operand.rank());
  const PairedRows rows(pick(window, dims), pick(operand.strides(), dims),
                        pick(result.strides(), map.window_dims));
  const T* source = operand.data<T>();
  T* target = const_cast<Array&>(result).data<T>();
  walk_windows(operand.rank(), indices, result.shape(), map,
               [&](Shape& start, const Shape& position) {
                 for (size_t d = 0; d < start.size(); ++d)
                   start[d] = std::clamp<int64_t>(start[d], 0, operand.shape()[d] - window[d]);
                 const T* from = source + offset_of(start, operand.strides());
                 T* to = target + offset_of(position, result.strides());
                 rows.walk([&](int64_t a, int64_t b) {
                   if (rows.a_step == 1 && rows.b_step == 1) {
                     std::memcpy(to + b, from + a, static_cast<size_t>(rows.row) * sizeof(T));
                   } else {
                     for (int64_t i = 0; i < rows.row; ++i)
                       to[b + i * rows.b_step] = from[a + i * rows.a_step];
                   }
                 });
               });
}

struct Bytes16 {
  uint64_t parts[2];
};

template <typename T, typename Op>
void scatter_typed(Array& target, const Array& indices, const Array& updates, const WindowMap& map,
                   Op op) {
  const std::vector<int64_t> dims = map.window_operand_dims(target.rank());
  const Shape full = pick(updates.shape(), map.window_dims);
  const Shape target_strides = pick(target.strides(), dims);
  const Shape update_strides = pick(updates.strides(), map.window_dims);
  const PairedRows whole(full, target_strides, update_strides);
  T* to = target.data<T>();
  const T* from = updates.data<T>();
  Shape cut = full, low(full.size());
  auto apply = [&](const PairedRows& rows, T* at, const T* update) {
    rows.walk([&](int64_t a, int64_t b) {
      T* x = at + a;
      const T* y = update + b;
      for (int64_t i = 0; i < rows.row; ++i)
        x[i * rows.a_step] = op(x[i * rows.a_step], y[i * rows.b_step]);
    });
  };
  std::vector<bool> in_window(target.rank(), false);
  for (int64_t d : dims) in_window[static_cast<size_t>(d)] = true;
  walk_windows(
      target.rank(), indices, updates.shape(), map, [&](Shape& start, const Shape& position) {
        bool inside = true, is_whole = true;
        for (size_t w = 0; w < dims.size(); ++w) {
          const int64_t d = dims[w], size = target.shape()[d];
          low[w] = std::max<int64_t>(0, -start[d]);
          cut[w] = std::min(full[w], size - start[d]) - low[w];
          inside &= cut[w] > 0;
          is_whole &= cut[w] == full[w];
        }
        for (size_t d = 0; d < start.size(); ++d)
          if (!in_window[d]) inside &= start[d] >= 0 && start[d] < target.shape()[d];
        if (!inside) return;
        T* at = to + offset_of(start, target.strides());
        const T* update = from + offset_of(position, updates.strides());
        if (is_whole) return apply(whole, at, update);
        apply(PairedRows(cut, target_strides, update_strides), at + offset_of(low, target_strides),
              update + offset_of(low, update_strides));
      });
}

template <typename T>
bool scatter_op(Array& target, const Array& indices, const Array& updates, const WindowMap& map,
                ReduceOp op) {
  auto run = [&](auto f) {
    scatter_typed<T>(target, indices, updates, map, f);
    return true;
  };
  constexpr bool kComplex =
      std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
  switch (op) {
    case ReduceOp::Sum:
      return run([](T a, T b) { return static_cast<T>(a + b); });
    case ReduceOp::Prod:
      return run([](T a, T b) { return static_cast<T>(a * b); });
    case ReduceOp::Max:
      if constexpr (!kComplex) return run([](T a, T b) { return a != a || a > b ? a : b; });
      break;
    case ReduceOp::Min:
      if constexpr (!kComplex) return run([](T a, T b) { return a != a || a < b ? a : b; });
      break;
    case ReduceOp::And:
      if constexpr (std::is_integral_v<T>)
        return run([](T a, T b) { return static_cast<T>(a & b); });
      break;
    case ReduceOp::Or:
      if constexpr (std::is_integral_v<T>)
        return run([](T a, T b) { return static_cast<T>(a | b); });
      break;
    case ReduceOp::Avg:
      break;
  }
  return false;
}

template <typename T>
bool overwrite(Array& target, const Array& indices, const Array& updates, const WindowMap& map) {
  scatter_typed<T>(target, indices, updates, map, [](const T&, const T& b) { return b; });
  return true;
}

}  // namespace

std::vector<int64_t> WindowMap::window_operand_dims(size_t operand_rank) const {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(operand_rank); ++d)
    if (!contains(collapsed_dims, d) && !contains(operand_batching_dims, d)) dims.push_back(d);
  return dims;
}

Array gather_windows(const Array& operand, const Array& indices, const WindowMap& map,
                     const Shape& window, const Shape& result_shape) {
  Array result(operand.dtype(), result_shape);
  if (result.num_elements() == 0) return result;
  switch (byte_size(operand.dtype())) {
    case 1:
      gather_typed<uint8_t>(operand, indices, map, window, result);
      break;
    case 2:
      gather_typed<uint16_t>(operand, indices, map, window, result);
      break;
    case 4:
      gather_typed<uint32_t>(operand, indices, map, window, result);
      break;
    case 8:
      gather_typed<uint64_t>(operand, indices, map, window, result);
      break;
    default:
      gather_typed<Bytes16>(operand, indices, map, window, result);
  }
  return result;
}

bool scatter_windows(Array& target, const Array& indices, const Array& updates,
                     const WindowMap& map, std::optional<ReduceOp> op) {
  if (!op) {
    switch (byte_size(target.dtype())) {
      case 1:
        return overwrite<uint8_t>(target, indices, updates, map);
      case 2:
        return overwrite<uint16_t>(target, indices, updates, map);
      case 4:
        return overwrite<uint32_t>(target, indices, updates, map);
      case 8:
        return overwrite<uint64_t>(target, indices, updates, map);
      default:
        return overwrite<Bytes16>(target, indices, updates, map);
    }
  }
  auto run = [&](auto element) {
    return scatter_op<decltype(element)>(target, indices, updates, map, *op);
  };
  switch (target.dtype()) {
    case DType::Bool:
      // On 0 and 1: or is max, and is min.
      if (*op == ReduceOp::Sum) op = ReduceOp::Or;
      return run(uint8_t{});
    case DType::U8:
      return run(uint8_t{});
    case DType::U16:
      return run(uint16_t{});
    case DType::U32:
      return run(uint32_t{});
    case DType::U64:
      return run(uint64_t{});
    case DType::I8:
      return run(int8_t{});
    case DType::I16:
      return run(int16_t{});
    case DType::I32:
      return run(int32_t{});
    case DType::I64:
      return run(int64_t{});
    case DType::F16:
      return run(float16{});
    case DType::BF16:
      return run(bfloat16{});
    case DType::F32:
      return run(float{});
    case DType::F64:
      return run(double{});
    case DType::C64:
      return run(std::complex<float>{});
    case DType::C128:
      return run(std::complex<double>{});
    default:
      return false;
  }
}

void for_each_window(const Shape& operand_shape, const Array& indices, const Shape& slices_shape,
                     const WindowMap& map, const std::function<void(const WindowPlace&)>& visit) {
  const std::vector<int64_t> dims = map.window_operand_dims(operand_shape.size());
  WindowPlace place;
  walk_windows(
      operand_shape.size(), indices, slices_shape, map, [&](Shape& start, const Shape& position) {
        place.operand_start = start;
        place.operand_size.assign(start.size(), 1);
        place.slices_start = position;
        place.slices_size.assign(position.size(), 1);
        for (size_t w = 0; w < dims.size(); ++w) {
          const int64_t d = dims[w], s = map.window_dims[w];
          const int64_t low = std::max<int64_t>(0, -start[d]);
          const int64_t size = std::min(slices_shape[s], operand_shape[d] - start[d]) - low;
          place.operand_start[d] += low;
          place.operand_size[d] = size;
          place.slices_start[s] = low;
          place.slices_size[s] = size;
        }
        for (size_t d = 0; d < start.size(); ++d)
          if (place.operand_size[d] <= 0 || place.operand_start[d] < 0 ||
              place.operand_start[d] >= operand_shape[d])
            return;
        visit(place);
      });
}

}  // namespace cleave
