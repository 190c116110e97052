#include "cleave/kernels/loop.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cleave/core/error.h"
#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/workspace.h"

namespace cleave {
namespace {

constexpr int64_t kChunkBytes = 8192;
// Of conversions before and after a loop: short, so that the memory has work while it computes.
constexpr int64_t kConvertedElements = 512;
// Of a large array and a single element: that many copies of it stay in the second-level cache.
constexpr int64_t kSplatChunkBytes = 65536;
constexpr int64_t kManySplatChunks = 32;

// A view without size-1 dimensions, neighbours that lie behind each other merged.
struct Collapsed {
  Shape shape;
  Shape strides;

  explicit Collapsed(const Array& array) {
    for (size_t d = 0; d < array.rank(); ++d) {
      const int64_t size = array.shape()[d], stride = array.strides()[d];
      if (size == 1) continue;
      if (!shape.empty() && strides.back() == stride * size) {
        shape.back() *= size;
        strides.back() = stride;
      } else {
        shape.push_back(size);
        strides.push_back(stride);
      }
    }
  }
};

// Gives the elements of a view in row-major order, chunk after chunk, each contiguous and
// converted.
class ChunkReader {
 public:
  ChunkReader(const Array& array, DType as, int64_t chunk)
      : base_(array.raw()), element_size_(byte_size(array.dtype())) {
    if (array.dtype() != as) {
      convert_ = convert_loop(array.dtype(), as);
      internal_check(convert_ != nullptr, "no conversion between these element types");
      converted_ = std::make_unique_for_overwrite<std::byte[]>(chunk * byte_size(as));
    }
    if (array.is_contiguous()) return;
    Collapsed view(array);
    shape_ = std::move(view.shape);
    strides_ = std::move(view.strides);
    index_.resize(shape_.size());
    packed_ = std::make_unique_for_overwrite<std::byte[]>(chunk * element_size_);
    splat_ = shape_.size() == 1 && strides_[0] == 0;
    if (splat_) pack(packed_.get(), std::min(chunk, shape_[0]));
  }

  bool in_place() const { return !packed_ && !convert_; }

  const std::byte* next(int64_t n) {
    const std::byte* data = base_;
    if (splat_) {
      data = packed_.get();
    } else if (packed_) {
      pack(packed_.get(), n);
      data = packed_.get();
    } else {
      base_ += n * element_size_;
    }
    if (!convert_) return data;
    convert_(&data, converted_.get(), n);
    return converted_.get();
  }

 private:
  void pack(std::byte* out, int64_t n) {
    switch (element_size_) {
      case 1:
        return pack_as<uint8_t>(out, n);
      case 2:
        return pack_as<uint16_t>(out, n);
      case 4:
        return pack_as<uint32_t>(out, n);
      case 8:
        return pack_as<uint64_t>(out, n);
      default:
        return pack_as<Bytes16>(out, n);
    }
  }

  template <typename T>
  void pack_as(std::byte* to, int64_t n) {
    T* out = reinterpret_cast<T*>(to);
    const size_t inner = shape_.size() - 1;
    const int64_t step = strides_[inner];
    while (n > 0) {
      const T* source = reinterpret_cast<const T*>(base_) + offset_;
      const int64_t run = std::min(n, shape_[inner] - index_[inner]);
      if (step == 1) {
        std::memcpy(out, source, run * sizeof(T));
      } else if (step == 0) {
        std::fill_n(out, run, *source);
      } else {
        for (int64_t i = 0; i < run; ++i) out[i] = source[i * step];
      }
      out += run;
      n -= run;
      offset_ += run * step;
      index_[inner] += run;
      for (size_t d = inner; index_[d] == shape_[d]; --d) {
        offset_ -= strides_[d] * shape_[d];
        index_[d] = 0;
        if (d == 0) break;
        offset_ += strides_[d - 1];
        ++index_[d - 1];
      }
    }
  }

  const std::byte* base_;
  int64_t element_size_;
  Shape shape_, strides_, index_;
  int64_t offset_ = 0;
  bool splat_ = false;
  std::unique_ptr<std::byte[]> packed_;
  Loop convert_ = nullptr;
  std::unique_ptr<std::byte[]> converted_;
};

bool is_splat(const Array& x) {
  for (size_t d = 0; d < x.rank(); ++d)
    if (x.shape()[d] != 1 && x.strides()[d] != 0) return false;
  return true;
}

// The elements of a contiguous array as uninitialised ones of another dtype of the same size.
Array memory_of(const Array& x, DType dtype) {
  const int64_t offset = (x.raw() - x.buffer().get()) / byte_size(dtype);
  return Array(dtype, x.shape(), row_major_strides(x.shape()), offset, x.buffer());
}

}  // namespace

// Large views that step over cache lines, tile by tile.
bool loop_packs(const Array& x) {
  constexpr int64_t kLargeElements = 1 << 15;
  return x.num_elements() >= kLargeElements && x.rank() > 1 && !x.is_contiguous() &&
         std::abs(x.strides().back()) >= 16;
}

int64_t packed_operand_bytes(std::span<const Array> operands) {
  int64_t bytes = 0;
  for (const Array& operand : operands)
    if (loop_packs(operand)) bytes += static_cast<int64_t>(operand.num_bytes());
  return bytes;
}

int64_t strided_operand_bytes(std::span<const Array> operands) {
  int64_t bytes = 0;
  for (const Array& operand : operands)
    if (!operand.is_contiguous()) bytes += static_cast<int64_t>(operand.num_bytes());
  return bytes;
}

Array run_loop(Loop loop, std::span<const Array> operands, std::span<const DType> in, DType out,
               DType result_dtype, const Array* reuse) {
  internal_check(operands.size() <= kMaxLoopOperands, "too many operands of an elementwise loop");
  const bool fits =
      reuse && reuse->is_contiguous() && byte_size(reuse->dtype()) == byte_size(result_dtype);
  Array result = fits ? memory_of(*reuse, result_dtype) : Array(result_dtype, operands[0].shape());
  const int64_t count = result.num_elements();
  if (count == 0) return result;

  int largest = byte_size(out);
  for (DType dtype : in) largest = std::max(largest, byte_size(dtype));
  bool only_splats =
      out == result_dtype && count >= kManySplatChunks * (kSplatChunkBytes / largest);
  for (size_t i = 0; i < operands.size(); ++i)
    only_splats = only_splats && operands[i].dtype() == in[i] &&
                  (operands[i].is_contiguous() || is_splat(operands[i]));
  bool converts = out != result_dtype;
  for (size_t i = 0; i < operands.size(); ++i) converts = converts || operands[i].dtype() != in[i];
  const int64_t chunk =
      std::min(count, converts ? kConvertedElements
                               : (only_splats ? kSplatChunkBytes : kChunkBytes) / largest);

  auto packed = [](const Array& x) { return loop_packs(x) ? x.copy() : x; };
  std::vector<Array> kept;
  kept.reserve(operands.size());
  std::vector<ChunkReader> readers;
  readers.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    internal_check(operands[i].shape() == result.shape(), "elementwise operands of unlike shapes");
    readers.emplace_back(kept.emplace_back(packed(operands[i])), in[i], chunk);
  }
  const Loop store = out == result_dtype ? nullptr : convert_loop(out, result_dtype);
  const bool direct = !store && std::all_of(readers.begin(), readers.end(),
                                            [](const ChunkReader& r) { return r.in_place(); });
  const int64_t step = direct ? count : chunk;
  const auto staging =
      store ? std::make_unique_for_overwrite<std::byte[]>(chunk * byte_size(out)) : nullptr;

  std::array<const std::byte*, kMaxLoopOperands> pointers{};
  std::byte* target = result.raw();
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t n = std::min(step, count - begin);
    for (size_t i = 0; i < readers.size(); ++i) pointers[i] = readers[i].next(n);
    loop(pointers.data(), store ? staging.get() : target, n);
    if (store) {
      const std::byte* staged = staging.get();
      store(&staged, target, n);
    }
    target += n * byte_size(result_dtype);
  }
  return result;
}

}  // namespace cleave
