#pragma once

#include <cstdint>
#include <vector>

namespace cleave::plan {

// Sizes of dimensions as unknowns. A dimension is a product of atoms, major to minor; atoms that
// must have one size form a class, and members of a class may differ by a constant.
//
//   tie({h*d}, {h, d})       "(h d) -> h d": the first dimension is split like the others
//   tie_with_offset(a, b)    a slice [:, :-1]: 33 and 32 stay one apart
//   freeze(a)                its size is part of the program's meaning
//
// Then every class may be made smaller; all sizes that follow are consistent.
class SizeClasses {
 public:
  using Dim = int;  // a dimension, by the number that add() gave it

  Dim add(int64_t size);
  int64_t size(Dim dim) const { return dims_[dim].size; }

  // The product of some dimensions is that of others. If their sizes have no common split, all of
  // them are frozen.
  void tie(const std::vector<Dim>& a, const std::vector<Dim>& b);
  // The difference of two sizes stays. Both are frozen if one is a product.
  void tie_with_offset(Dim a, Dim b);
  void freeze(Dim dim);
  // The dimension is cut into this many shards: its remainder stays.
  void shard(Dim dim, int64_t shards);

  // Makes every class as small as it can be: sizes keep their remainders by the numbers of shards,
  // and no shard gets fewer than `least` elements that had as many.
  void shrink(int64_t least);
  int64_t new_size(Dim dim) const;

 private:
  struct Atom {
    int64_t size = 1;
    int parent = -1;         // -1: a root
    std::vector<int> parts;  // of a root that was split, major to minor
    // Of a root that was not split:
    bool frozen = false;
    int64_t smallest = 1;  // size of the smallest member
    int64_t shards = 1;    // least common multiple
    int64_t removed = 0;   // by shrink()
    bool has_offsets = false;
  };
  struct Entry {
    int64_t size;
    std::vector<int> atoms;
  };

  int new_atom(int64_t size);
  int root(int atom) const;
  std::vector<int> expand(const std::vector<int>& atoms) const;
  std::vector<int> atoms_of(const std::vector<Dim>& dims) const;
  void join(int a, int b);
  bool split(int atom, int64_t minor);

  std::vector<Atom> atoms_;
  std::vector<Entry> dims_;
};

}  // namespace cleave::plan
