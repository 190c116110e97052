#include "cleave/runtime/program_cache.h"

namespace cleave {

ReadyProgramPtr ProgramCache::find(const ProgramKey& key,
                                   const std::function<ReadyProgramPtr()>& make) {
  uint64_t hash = key.words.size();
  for (uint64_t word : key.words) hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL + (hash >> 29);
  auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (!(it->second->key == key)) continue;
    ++hits_;
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->program;
  }
  ++misses_;
  ReadyProgramPtr program = make();
  entries_.push_front({key, hash, program});
  by_hash_.emplace(hash, entries_.begin());
  if (entries_.size() > limit_) {
    const auto last = std::prev(entries_.end());
    auto [first, past] = by_hash_.equal_range(last->hash);
    for (auto it = first; it != past; ++it) {
      if (it->second != last) continue;
      by_hash_.erase(it);
      break;
    }
    entries_.erase(last);
  }
  return program;
}

}  // namespace cleave
