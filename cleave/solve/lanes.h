#pragma once

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

}  // namespace cleave::solver
