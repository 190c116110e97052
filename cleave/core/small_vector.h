#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace cleave {

// A vector of trivially copyable elements with room for N of them inside, so that the short lists
// of hot loops (the axes of a factor, the changed tensors of an op) never touch the heap.
//
//   SmallVector<AxisRef, 4> axes;   // four axes without an allocation, any number with one
template <typename T, uint32_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  SmallVector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  template <typename Iterator>
  SmallVector(Iterator begin, Iterator end) {
    assign(begin, end);
  }
  SmallVector(const SmallVector& other) { assign(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~SmallVector() { release(); }

  template <typename Iterator>
  void assign(Iterator begin, Iterator end) {
    const auto count = static_cast<uint32_t>(end - begin);
    reserve(count);
    std::copy(begin, end, data_);
    size_ = count;
  }
  void push_back(const T& value) {
    const T copy = value;
    if (size_ == capacity_) reserve(2 * capacity_);
    data_[size_++] = copy;
  }
  void pop_back() { --size_; }
  void truncate(uint32_t size) { size_ = std::min(size_, size); }
  void clear() { size_ = 0; }
  void resize(uint32_t size, const T& value = {}) {
    reserve(size);
    for (uint32_t i = size_; i < size; ++i) data_[i] = value;
    size_ = size;
  }
  void reserve(uint32_t capacity) {
    if (capacity <= capacity_) return;
    T* grown = new T[capacity];
    std::copy(begin(), end(), grown);
    release();
    data_ = grown;
    capacity_ = capacity;
  }

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](uint32_t i) { return data_[i]; }
  const T& operator[](uint32_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  bool operator==(const SmallVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  void release() {
    if (data_ != inline_) delete[] data_;
    data_ = inline_;
    capacity_ = N;
  }
  void take(SmallVector& other) {
    size_ = other.size_;
    if (other.data_ == other.inline_) {
      std::copy(other.begin(), other.end(), inline_);
    } else {
      data_ = std::exchange(other.data_, other.inline_);
      capacity_ = std::exchange(other.capacity_, N);
    }
    other.size_ = 0;
  }

  T* data_ = inline_;
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  T inline_[N];
};

}  // namespace cleave
