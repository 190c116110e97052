#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// For values that are read, the values that stand for them in what is written. The two may lie in
// different graphs or in one graph, which grows meanwhile.
//
// A dense map takes memory as large as the graph that is read; a sparse one as large as what is
// entered, for small copies out of large graphs.
class ValueMap {
 public:
  ValueMap() = default;
  explicit ValueMap(size_t values) : dense_(values) {}  // with room for this many
  static ValueMap sparse() {
    ValueMap map;
    map.is_sparse_ = true;
    return map;
  }

  // The counterpart; invalid if there is none.
  ValueId operator[](ValueId from) const {
    if (is_sparse_) {
      const auto it = sparse_.find(from.index);
      return it == sparse_.end() ? ValueId{} : it->second;
    }
    return from.index < dense_.size() ? dense_[from.index] : ValueId{};
  }
  bool has(ValueId from) const { return (*this)[from].valid(); }
  // The counterpart; throws InternalError if there is none.
  ValueId at(ValueId from) const;
  std::vector<ValueId> at(const std::vector<ValueId>& from) const;
  // The counterpart, or the value itself if there is none.
  ValueId map(ValueId from) const {
    const ValueId found = (*this)[from];
    return found.valid() ? found : from;
  }
  std::vector<ValueId> map(const std::vector<ValueId>& from) const;

  void set(ValueId from, ValueId to) {
    if (is_sparse_) {
      sparse_[from.index] = to;
      return;
    }
    if (from.index >= dense_.size()) dense_.resize(from.index + 1);
    dense_[from.index] = to;
  }
  // Pairs in order; `to` may be longer than `from`.
  void set(std::span<const ValueId> from, std::span<const ValueId> to);

 private:
  std::vector<ValueId> dense_;
  std::unordered_map<uint32_t, ValueId> sparse_;
  bool is_sparse_ = false;
};

// Replaces operands of a node, and of the nodes inside it, by what stands for them.
void replace_operands(Graph& graph, NodeId node, const ValueMap& map);

}  // namespace cleave
