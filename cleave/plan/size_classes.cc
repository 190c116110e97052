#include "cleave/plan/size_classes.h"

#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"

namespace cleave::plan {

int SizeClasses::new_atom(int64_t size) {
  Atom atom;
  atom.size = atom.smallest = size;
  atoms_.push_back(std::move(atom));
  return static_cast<int>(atoms_.size()) - 1;
}

SizeClasses::Dim SizeClasses::add(int64_t size) {
  Entry entry{size, {}};
  if (size > 1) entry.atoms.push_back(new_atom(size));
  dims_.push_back(std::move(entry));
  return static_cast<Dim>(dims_.size()) - 1;
}

int SizeClasses::root(int atom) const {
  while (atoms_[atom].parent >= 0) atom = atoms_[atom].parent;
  return atom;
}

// Atoms whose class was split are replaced by its parts.
std::vector<int> SizeClasses::expand(const std::vector<int>& atoms) const {
  std::vector<int> result;
  for (int atom : atoms) {
    const int top = root(atom);
    if (atoms_[top].parts.empty()) {
      result.push_back(atom);
    } else {
      const std::vector<int> inner = expand(atoms_[top].parts);
      result.insert(result.end(), inner.begin(), inner.end());
    }
  }
  return result;
}

std::vector<int> SizeClasses::atoms_of(const std::vector<Dim>& dims) const {
  std::vector<int> atoms;
  for (Dim dim : dims) atoms.insert(atoms.end(), dims_[dim].atoms.begin(), dims_[dim].atoms.end());
  return expand(atoms);
}

void SizeClasses::join(int a, int b) {
  const int x = root(a), y = root(b);
  if (x == y) return;
  Atom& top = atoms_[x];
  Atom& other = atoms_[y];
  top.has_offsets |= other.has_offsets || top.size != other.size;
  top.frozen |= other.frozen;
  top.smallest = std::min(top.smallest, other.smallest);
  top.shards = std::lcm(top.shards, other.shards);
  other.parent = x;
}

bool SizeClasses::split(int atom, int64_t minor) {
  const int top = root(atom);
  if (atoms_[top].has_offsets) return false;
  const int high = new_atom(atoms_[top].size / minor), low = new_atom(minor);
  for (int part : {high, low}) {
    atoms_[part].frozen = atoms_[top].frozen;
    atoms_[part].shards = atoms_[top].shards;
  }
  atoms_[top].parts = {high, low};
  return true;
}

void SizeClasses::tie(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  while (true) {
    const std::vector<int> x = atoms_of(a), y = atoms_of(b);
    auto i = x.rbegin(), j = y.rbegin();
    while (i != x.rend() && j != y.rend() && atoms_[*i].size == atoms_[*j].size) join(*i++, *j++);
    if (i == x.rend() && j == y.rend()) return;
    bool done = i == x.rend() || j == y.rend();
    if (!done) {
      const bool first_is_larger = atoms_[*i].size > atoms_[*j].size;
      const int large = first_is_larger ? *i : *j, small = first_is_larger ? *j : *i;
      done = atoms_[large].size % atoms_[small].size != 0 || !split(large, atoms_[small].size);
    }
    if (!done) continue;
    for (Dim dim : a) freeze(dim);
    for (Dim dim : b) freeze(dim);
    return;
  }
}

void SizeClasses::tie_with_offset(Dim a, Dim b) {
  const std::vector<int> x = atoms_of({a}), y = atoms_of({b});
  if (x.size() == 1 && y.size() == 1 && root(x[0]) != root(y[0])) return join(x[0], y[0]);
  if (x.size() == 1 && y.size() == 1) return;
  freeze(a);
  freeze(b);
}

void SizeClasses::freeze(Dim dim) {
  for (int atom : atoms_of({dim})) atoms_[root(atom)].frozen = true;
}

void SizeClasses::shard(Dim dim, int64_t shards) {
  for (int atom : atoms_of({dim})) {
    Atom& top = atoms_[root(atom)];
    top.shards = std::lcm(top.shards, shards);
  }
}

void SizeClasses::shrink(int64_t least) {
  for (Atom& atom : atoms_) {
    if (atom.parent >= 0 || !atom.parts.empty() || atom.frozen) continue;
    // A class that is sharded nowhere still has a few elements, so that mistakes show.
    const int64_t floor = std::max<int64_t>(least * atom.shards, 4);
    if (atom.smallest > floor) atom.removed = (atom.smallest - floor) / atom.shards * atom.shards;
  }
}

int64_t SizeClasses::new_size(Dim dim) const {
  if (dims_[dim].atoms.empty()) return dims_[dim].size;
  int64_t product = 1;
  for (int atom : atoms_of({dim})) product *= atoms_[atom].size - atoms_[root(atom)].removed;
  internal_check(product >= 1, "a dimension has shrunk to nothing");
  return product;
}

}  // namespace cleave::plan
