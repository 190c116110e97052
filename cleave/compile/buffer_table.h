#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cleave/compile/device_code.h"

namespace cleave {

// The buffers of a device's code while it is laid out: when each is needed, which ones share
// memory, and in the end where each lies. Positions count steps in the order of the code, those
// inside loops and branches included.
class BufferTable {
 public:
  // A step may write the result into the memory of the operand.
  struct InPlace {
    uint32_t operand, result;
  };

  uint32_t add(CodeBuffer buffer);
  // Of buffers that share memory, one stands for all.
  uint32_t root(uint32_t id);
  CodeBuffer& whole(uint32_t id) { return buffers_[root(id)]; }
  void unite(uint32_t a, uint32_t b);  // roots; `b` becomes part of `a`

  int64_t next_position() { return ++position_; }
  void touch(uint32_t id);  // is needed at this position
  void add_step(CodeStep* step, const std::vector<CodeView>& reads,
                const std::vector<CodeView>& writes, std::vector<InPlace> in_place);

  // A loop: what lives outside and is touched inside is needed until the last turn.
  int64_t begin_loop();
  void end_loop(int64_t begin);
  // Two roots that trade places after each turn of the loop: they share memory with no others.
  void rotate(uint32_t a, uint32_t b, int64_t loop_begin);
  bool is_pinned(uint32_t id) { return pinned_.count(root(id)) != 0; }
  // Whether nothing reads root `a` after root `b` begins to be written.
  bool is_dead_before(uint32_t a, uint32_t b);

  // Results of steps take the memory of operands that nothing reads afterwards, beginning with
  // donated arguments.
  void share_memory();
  // Donated arguments give their memory to a result that is written after their last use.
  void donate(DeviceCode& code);
  // Places everything, and moves the buffers into the code.
  void plan(DeviceCode& code);

 private:
  struct Record {
    CodeStep* step = nullptr;
    std::vector<uint32_t> reads;
    std::vector<InPlace> in_place;
  };
  void share_memory(CodeBuffer::Kind kind);
  bool may_overwrite(const Record& record, uint32_t a, uint32_t b);
  size_t most_held(const DeviceCode& code) const;

  std::vector<CodeBuffer> buffers_;
  std::vector<uint32_t> parent_;           // by buffer
  std::map<int64_t, Record> records_;      // by position
  std::vector<std::set<uint32_t>> loops_;  // buffers touched in the loops around
  std::vector<std::pair<uint32_t, uint32_t>> rotated_;
  std::set<uint32_t> pinned_;
  int64_t position_ = 0;
};

}  // namespace cleave
