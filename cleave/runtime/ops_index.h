#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/runtime/promotion.h"
#include "cleave/runtime/tensor.h"

// Indexing as in NumPy. Each index speaks of one dimension of x, from the first on; dimensions that
// no index speaks of stay whole.
//
//   x[-1]                            the last row; a number that is out of range is a UserError
//   x(slice(1, 4), all)              rows 1, 2, 3; x(slice(1, 4)) is the same
//   x(slice({}, {}, -1))             the rows backwards
//   x(ellipsis, 0)                   the first column, whatever is before it
//   x(newaxis, ellipsis)             a dimension of size 1 in front
//   x(ids)                           rows by a Tensor of integers: ids.shape() + x.shape()[1:]
//   x(arange(3), ids)                one element for every pair; index Tensors broadcast
//   x(mask)                          the elements of which a Tensor of bools is true
//   x.at(slice(0, 4)).set(0)         x with its first four rows 0; x itself does not change
//   x.at(ids).add(v)                 if a row comes twice, both are added
//
// If several index Tensors (and numbers beside them) are neighbours, their dimensions stand where
// they stood; otherwise in front. Elements of an index Tensor may be negative; what is beyond the
// ends reads the nearest element, and writes nothing. A mask gives a result whose size depends on
// its values: it must be there when x(mask) is called, so traces refuse it; use `where`.
namespace cleave {

// start, start + step, ... before stop; as in Python, bounds may be negative, left out, and beyond
// the ends.
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
};
inline Slice slice(std::optional<int64_t> start = {}, std::optional<int64_t> stop = {},
                   int64_t step = 1) {
  return {start, stop, step};
}
struct NewAxis {};
inline constexpr NewAxis newaxis;
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;

class TensorIndex {
 public:
  enum class Kind : uint8_t { Number, Range, NewAxis, Ellipsis, Elements };
  using Reduction = Tensor (*)(const Tensor&, const std::vector<int64_t>&, bool);

  template <std::integral T>
  TensorIndex(T number) : kind(Kind::Number), number(static_cast<int64_t>(number)) {}
  TensorIndex(const Slice& range) : kind(Kind::Range), range(range) {}
  TensorIndex(NewAxis) : kind(Kind::NewAxis) {}
  TensorIndex(Ellipsis) : kind(Kind::Ellipsis) {}
  TensorIndex(Tensor tensor) : kind(Kind::Elements), tensor(std::move(tensor)) {}
  // The function `all`, by its name: a whole dimension. Any other function is a UserError.
  TensorIndex(Reduction function);

  Kind kind;
  int64_t number = 0;
  Slice range = {};
  Tensor tensor = {};  // of integers, or of bools
};

Tensor index(const Tensor& x, const std::vector<TensorIndex>& indices);

// Elements of a tensor, to be changed. Values broadcast to x(indices...) and must fit its dtype.
class TensorAt {
 public:
  TensorAt(Tensor x, std::vector<TensorIndex> indices)
      : x_(std::move(x)), indices_(std::move(indices)) {}
  Tensor get() const { return index(x_, indices_); }
  Tensor set(const Operand& values) const;  // of an element that comes twice, one of the values
  Tensor add(const Operand& values) const;
  Tensor mul(const Operand& values) const;
  Tensor min(const Operand& values) const;
  Tensor max(const Operand& values) const;

 private:
  Tensor x_;
  std::vector<TensorIndex> indices_;
};

template <typename... Indices>
Tensor Tensor::operator()(const Indices&... indices) const {
  return cleave::index(*this, {TensorIndex(indices)...});
}
template <typename... Indices>
TensorAt Tensor::at(const Indices&... indices) const {
  return TensorAt(*this, {TensorIndex(indices)...});
}

}  // namespace cleave
