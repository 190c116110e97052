#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/shard_layout.h"
#include "cleave/core/sharding.h"
#include "cleave/graph/type.h"
#include "cleave/kernels/array.h"
#include "cleave/runtime/partition_spec.h"

namespace cleave {

struct Record;  // cleave/runtime/record.h

// Counts the handles of a record: those that a program holds, and those of records that use it.
struct RecordHead {
  std::atomic<uint32_t> handles{0};
};

// What one device holds of a tensor.
struct TensorShard {
  int64_t device = 0;
  ShardSlice index;  // which part of the whole: offsets and sizes
  Array data;        // where a reduction is pending, this device's part of it
};

// A value of a program: a handle to the record of the op that makes it. Copies share it. Everything
// that is done with tensors is recorded; values are computed when someone looks, and then only what
// that needs, once.
//
//   Mesh mesh{{"data", 2}, {"model", 4}};
//   Tensor x = randn({64, 512}).shard(mesh, P("data", {}));
//   Tensor y = matmul(x, w);        // recorded: type and layout are known, the value is not
//   y.sharding()                    // [{"data"}, {}], unreduced={"model"}
//   Array host = y.to_host();       // computed; y and x keep their values, on their devices
//
// Inside a trace (TraceScope) a tensor may be an argument without a value; see trace_scope.h.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : record_(other.record_), index_(other.index_) { retain(); }
  Tensor(Tensor&& other) noexcept
      : record_(std::exchange(other.record_, nullptr)), index_(other.index_) {}
  Tensor& operator=(const Tensor& other) {
    Tensor(other).swap(*this);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor(std::move(other)).swap(*this);
    return *this;
  }
  ~Tensor() { release(); }
  // Result `index` of a record.
  Tensor(Record* record, uint32_t index) : record_(record), index_(index) { retain(); }

  // From host memory, on one device, until `shard` says otherwise.
  static Tensor from(Array array);
  template <typename T>
  static Tensor from(DType dtype, Shape shape, const std::vector<T>& values) {
    check_bytes(dtype, shape, values.size() * sizeof(T));
    return from(Array::from_bytes(dtype, std::move(shape), values.data()));
  }
  // Parts of a value that are on their devices already, by device.
  static Tensor from_shards(std::vector<Array> shards, const Shape& shape,
                            const ShardingSpec& spec);
  static Tensor load(const std::filesystem::path& path);  // .npy

  bool valid() const { return record_ != nullptr; }
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  int64_t dim(int64_t d) const;  // negative counts from the end
  int64_t size() const { return num_elements(shape()); }
  // The layout; without a mesh where the tensor is whole on one device. Where a sum is pending, it
  // is completed by the first op that needs it, and stays completed.
  const ShardingSpec& sharding() const;
  const MeshPtr& mesh() const { return sharding().mesh; }

  // The value laid out in another way. `shard` and `with_sharding` are constraints, which compilers
  // of a trace may move; `reshard` happens where it stands.
  Tensor shard(const Mesh& mesh, const PartitionSpec& spec) const;
  Tensor with_sharding(const PartitionSpec& spec) const;  // on the mesh that it has
  Tensor with_sharding(const ShardingSpec& spec) const;
  Tensor reshard(const PartitionSpec& spec) const;
  Tensor reshard(const ShardingSpec& spec) const;

  // Looking. Each computes the value first where that has not happened.
  Array to_host() const;  // the whole value, contiguous
  template <typename T>
  std::vector<T> to_vector() const {
    const Array host = to_host();
    check_element(sizeof(T), std::is_floating_point_v<T>, std::is_signed_v<T>);
    return {host.data<T>(), host.data<T>() + host.num_elements()};
  }
  double item() const;                                  // of a tensor with one element
  std::vector<TensorShard> addressable_shards() const;  // on the devices of this process
  void save(const std::filesystem::path& path) const;   // .npy
  const Tensor& evaluate() const;

  bool is_computed() const;
  bool is_traced() const;  // depends on an argument of a trace: has no value

  Record* record() const { return record_; }
  uint32_t index() const { return index_; }
  bool is_same(const Tensor& other) const {
    return record_ == other.record_ && index_ == other.index_;
  }
  void swap(Tensor& other) noexcept {
    std::swap(record_, other.record_);
    std::swap(index_, other.index_);
  }

 private:
  void retain() const;
  void release();
  static void check_bytes(DType dtype, const Shape& shape, size_t bytes);
  // Floats are read as floats and signed integers as such; unsigned ones also take the bits of
  // bools and of 16-bit floats.
  void check_element(size_t bytes, bool is_float, bool is_signed) const;

  Record* record_ = nullptr;
  uint32_t index_ = 0;
};

// Computes several tensors together.
void evaluate(std::span<const Tensor> tensors);

// Bytes of computed tensors that are alive, by device; those that are on no mesh count for device
// 0.
std::vector<int64_t> memory_in_use();

}  // namespace cleave
