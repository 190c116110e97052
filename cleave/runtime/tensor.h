#pragma once

#include <atomic>
#include <complex>
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

struct Record;      // cleave/runtime/record.h
class TensorIndex;  // cleave/runtime/ops_index.h
class TensorAt;

// Counts the handles of a record: those that a program holds, and those of records that use it.
struct RecordHead {
  std::atomic<uint32_t> handles{0};
};

// What one device holds of a tensor.
struct TensorShard {
  int64_t device = 0;
  ShardSlice index;  // which part of the whole: offsets and sizes
  Array data;        // if a reduction is pending, this device's part of it
};

// A C++ type of elements.
struct HostElement {
  enum class Kind : uint8_t { Unsigned, Signed, Float, Complex, Other } kind;
  size_t bytes;

  template <typename T>
  static constexpr HostElement of() {
    if constexpr (std::is_floating_point_v<T>)
      return {Kind::Float, sizeof(T)};
    else if constexpr (std::is_integral_v<T>)
      return {std::is_signed_v<T> ? Kind::Signed : Kind::Unsigned, sizeof(T)};
    else if constexpr (std::is_same_v<T, std::complex<float>> ||
                       std::is_same_v<T, std::complex<double>>)
      return {Kind::Complex, sizeof(T)};
    else
      return {Kind::Other, sizeof(T)};
  }
};

// A value of a program: a handle to the record of the op that makes it. Copies share it. Everything
// that is done with tensors is recorded. A value is computed when it is read, with only what it
// needs, and once.
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

  // From host memory, on one device, until `shard` says otherwise. The tensor has elements of its
  // own: what happens to the array or vector afterwards does not matter. (An array that is moved
  // here, and has no other holder, is taken over without a copy.)
  static Tensor from(Array array);
  // T is what elements of `dtype` are in memory: float for f32, int32_t for i32,
  // std::complex<float> for complex<f32>; bools are bytes (or a vector<bool>), and 16-bit floats
  // their bits as uint16_t. Anything else is a UserError: nothing is converted.
  template <typename T>
  static Tensor from(DType dtype, Shape shape, const std::vector<T>& values) {
    if constexpr (std::is_same_v<T, bool>) {
      return from(dtype, std::move(shape), std::vector<uint8_t>(values.begin(), values.end()));
    } else {
      check_values(dtype, shape, values.size(), HostElement::of<T>());
      return from_values(dtype, std::move(shape), values.data());
    }
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
  // The layout; without a mesh if the tensor is whole on one device. It is known when the tensor
  // is recorded, and never changes. A pending sum is completed by the first op that needs its
  // value; the sum is kept with it, so that the next one finds it.
  const ShardingSpec& sharding() const;
  const MeshPtr& mesh() const { return sharding().mesh; }

  // The value laid out in another way. `shard` and `with_sharding` are constraints, which compilers
  // of a trace may move; `reshard` happens at its place. `sharding()` has the axes that are to stay
  // replicated, which no result of an op on this tensor takes, and the priorities of dimensions,
  // which results inherit. Open dimensions are wishes to the propagation of a trace, and are kept
  // there: an op on tensors follows from its operands, whether they are open or not.
  Tensor shard(const Mesh& mesh, const PartitionSpec& spec) const;
  Tensor with_sharding(const PartitionSpec& spec) const;  // on the mesh that it has
  Tensor with_sharding(const ShardingSpec& spec) const;
  Tensor reshard(const PartitionSpec& spec) const;
  Tensor reshard(const ShardingSpec& spec) const;

  // Elements by place, as in NumPy: x[-1], x(slice(0, 4), newaxis, ellipsis), x(ids); and x with
  // some of them changed: x.at(0).set(v). See ops_index.h, which has to be included.
  Tensor operator[](const TensorIndex& index) const;
  template <typename... Indices>
  Tensor operator()(const Indices&... indices) const;
  template <typename... Indices>
  TensorAt at(const Indices&... indices) const;

  // Reading. Each computes the value first if that has not happened.
  Array to_host() const;  // the whole value, contiguous; a copy, which the caller may write to
  template <typename T>
  std::vector<T> to_vector() const {
    check_element(HostElement::of<T>());
    const Array host = to_host();
    return {host.data<T>(), host.data<T>() + host.num_elements()};
  }
  double item() const;                                  // of a tensor with one element
  std::vector<TensorShard> addressable_shards() const;  // of this process; views, not to be written
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
  static void check_values(DType dtype, const Shape& shape, size_t count, HostElement element);
  static Tensor from_values(DType dtype, Shape shape, const void* values);
  void check_element(HostElement element) const;

  Record* record_ = nullptr;
  uint32_t index_ = 0;
};

// Computes several tensors together.
void evaluate(std::span<const Tensor> tensors);

// Bytes of computed tensors that are alive, by device; those that are on no mesh count for device
// 0.
std::vector<int64_t> memory_in_use();

}  // namespace cleave
