#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave::analyze {

// Bytes that a kernel reads of written values, in the order of the values. There is one for every
// value that is not written, and most hold one or two entries: a map would be mostly nodes.
class KernelReads {
 public:
  using Entry = std::pair<ValueId, double>;

  KernelReads() = default;
  KernelReads(std::initializer_list<Entry> entries) {
    for (const auto& [value, bytes] : entries) (*this)[value] = bytes;
  }

  double& operator[](ValueId value) {
    const auto at = place(value);
    if (at != entries_.end() && at->first == value) return at->second;
    return entries_.insert(at, {value, 0.0})->second;
  }
  std::vector<Entry>::const_iterator find(ValueId value) const {
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), value, is_before);
    return at != entries_.end() && at->first == value ? at : entries_.end();
  }
  bool contains(ValueId value) const { return find(value) != end(); }
  template <class Predicate>
  void erase_if(const Predicate& predicate) {
    std::erase_if(entries_, predicate);
  }

  std::vector<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  double total() const {
    double bytes = 0;
    for (const auto& [value, each] : entries_) bytes += each;
    return bytes;
  }
  bool operator==(const KernelReads&) const = default;

 private:
  static bool is_before(const Entry& entry, ValueId value) { return entry.first < value; }
  std::vector<Entry>::iterator place(ValueId value) {
    return std::lower_bound(entries_.begin(), entries_.end(), value, is_before);
  }

  std::vector<Entry> entries_;
};

}  // namespace cleave::analyze
