#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cleave/runtime/collective_listener.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/record.h"

namespace cleave {

// The structure of a recorded program: for each input its aval; for each op its signature and which
// values it reads (so that x*x and x*y differ); which values come out. Signatures and avals are
// immutable and kept alive by the key, so that equal words mean equal structures.
struct ProgramKey {
  std::vector<uint64_t> words;
  std::vector<SignaturePtr> signatures;
  std::vector<AvalPtr> avals;

  void add(const SignaturePtr& signature) {
    words.push_back(reinterpret_cast<uintptr_t>(signature.get()));
    signatures.push_back(signature);
  }
  void add(const AvalPtr& aval) {
    words.push_back(reinterpret_cast<uintptr_t>(aval.get()));
    avals.push_back(aval);
  }
  void add(uint64_t word) { words.push_back(word); }
  bool operator==(const ProgramKey& other) const { return words == other.words; }
};

// A program ready to run.
struct ReadyProgram {
  ReadyProgram(Program program, std::vector<AvalPtr> results)
      : calls_collectives(cleave::calls_collectives(program.graph)),
        executor(std::move(program)),
        results(std::move(results)) {}

  bool calls_collectives;  // of its own, in manual computations
  Executor executor;
  std::vector<AvalPtr> results;
};
using ReadyProgramPtr = std::shared_ptr<const ReadyProgram>;

// The programs that ran last, by structure; compared in full. The one unused for longest goes when
// there are too many.
class ProgramCache {
 public:
  explicit ProgramCache(size_t limit) : limit_(limit) {}

  ReadyProgramPtr find(const ProgramKey& key, const std::function<ReadyProgramPtr()>& make);
  size_t size() const { return entries_.size(); }
  int64_t hits() const { return hits_; }
  int64_t misses() const { return misses_; }

 private:
  struct Entry {
    ProgramKey key;
    uint64_t hash;
    ReadyProgramPtr program;
  };
  size_t limit_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_multimap<uint64_t, std::list<Entry>::iterator> by_hash_;
  int64_t hits_ = 0, misses_ = 0;
};

// What the cache of this process did so far.
struct ProgramCacheStats {
  int64_t hits = 0, misses = 0;
  size_t programs = 0;
};
ProgramCacheStats program_cache_stats();

}  // namespace cleave
