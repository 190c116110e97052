#pragma once

#include <vector>

#include "cleave/kernels/reduce.h"

namespace cleave {
namespace reduce_detail {

inline constexpr size_t kMostDims = 32;

struct KeptDim {
  int64_t size, in_stride, out_stride;
};
struct FoldedDim {
  int64_t size, stride;
};

// One dimension is walked innermost; `inner_kept` says whether it is kept or folded.
struct Plan {
  std::vector<KeptDim> kept;      // without the inner one
  std::vector<FoldedDim> folded;  // without the inner one
  bool inner_kept = false;
  KeptDim inner{1, 1, 1};  // out_stride only if kept
};

}  // namespace reduce_detail

// A reduction of strided views, prepared once: the bits of reduce(), without an allocation. Neither
// the input nor the result may be empty, and F16 must be widened first.
//
//   ReduceLoop loop(DType::F32, {2, 3, 4}, {12, 4, 1}, {1}, Reducer::Sum, {4, 1});
//   for (int64_t part = 0; part < loop.num_parts(); ++part) loop.run(part, in, init, out);
class ReduceLoop {
 public:
  // `out_strides` are those of the dimensions that are kept. Parts may run on several threads; a
  // reduction that keeps little is one part.
  ReduceLoop(DType dtype, const Shape& shape, const Shape& strides,
             const std::vector<int64_t>& dims, Reducer reducer, const Shape& out_strides,
             int64_t parts = 1);

  int64_t num_parts() const { return static_cast<int64_t>(parts_.size()); }
  void run(int64_t part, const std::byte* in, const std::byte* init, std::byte* out) const;

 private:
  struct Part {
    reduce_detail::Plan plan;
    int64_t in = 0, out = 0;  // bytes
  };
  DType dtype_;
  Reducer reducer_;
  std::vector<Part> parts_;
};

}  // namespace cleave
