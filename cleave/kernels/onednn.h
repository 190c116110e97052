#pragma once

#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "cleave/core/dtype.h"

namespace cleave {

// The CPU engine of the process, and a stream of the calling thread.
dnnl::engine& onednn_engine();
dnnl::stream& onednn_stream();
dnnl::memory::data_type onednn_type(DType dtype);  // F32, F16, BF16, I32, I8, U8

// Primitives of one kind by everything that their creation depends on; one cache per thread and
// call site. Creation takes tens of microseconds, a look-up well under one. The cache is emptied
// when it has grown large.
template <typename Entry>
class PrimitiveCache {
 public:
  using Key = std::vector<int64_t>;
  template <typename Make>
  Entry& get(const Key& key, Make make) {
    auto it = entries_.find(key);
    if (it != entries_.end()) return it->second;
    if (entries_.size() >= kLimit) entries_.clear();
    return entries_.emplace(key, make()).first->second;
  }

 private:
  static constexpr size_t kLimit = 1024;
  std::map<Key, Entry> entries_;
};

}  // namespace cleave
