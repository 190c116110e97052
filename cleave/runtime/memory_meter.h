#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

// The bytes that one device holds while a program runs: every buffer once, however many values and
// views share it, from the step that makes it to the one that reads it last; within a step, what
// the kernel allocates for itself too. What devices of one process share (the result of an
// all_reduce) counts on each of them, as it would with memories of their own. Constants of the
// program and what libraries keep for themselves are not counted. The numbers are the same for
// every run.
//
//   a = ...        [1024]f32   live 4096
//   b = reshape a              live 4096    the same buffer
//   c = add b, b               live 4096, peak 8192: operand and result
class MemoryMeter {
 public:
  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  NodeId peak_at() const { return peak_at_; }  // the node of the device's graph

  // Steps end one after the other: which reached the peak, and what was held after each.
  int64_t peak_step() const { return peak_step_; }
  const std::vector<int64_t>& timeline() const { return timeline_; }
  // Asks to note, at the end of a step, every buffer that is held, with its bytes.
  void note_at(int64_t step) { note_at_ = step; }
  const std::vector<std::pair<const void*, int64_t>>& noted() const { return noted_; }

  // A value begins and ends.
  void hold(const Array& array);
  void release(const Array& array);

  int64_t holders(const Array& array) const;  // values that share the buffer

  // Around a step: `begin` before the kernel, `end` when its results are held and its operands are
  // too. Steps may nest. `counts_allocations`: what the kernel allocated is its own. `taken_over`:
  // bytes of results that would stand in the memory of an operand if devices did not share arrays.
  struct Mark {
    int64_t live, allocated, outer_peak;
  };
  Mark begin();
  void end(const Mark& mark, NodeId node, bool counts_allocations, int64_t taken_over = 0);

 private:
  struct Held {
    int64_t bytes = 0;
    int64_t count = 0;
  };
  void reach(int64_t bytes, NodeId node);

  std::map<const void*, Held> held_;  // by buffer
  int64_t live_ = 0, peak_ = 0;
  NodeId peak_at_;
  int64_t peak_step_ = -1, note_at_ = -1;
  std::vector<int64_t> timeline_;
  std::vector<std::pair<const void*, int64_t>> noted_;
};

// What a view reaches of its buffer, in bytes: no more than its elements take, and less if strides
// are zero.   [4096] broadcast from a scalar -> 4
int64_t storage_bytes(const Array& array);

// What each device held at most.
struct MemoryUse {
  std::vector<int64_t> peaks;   // by device
  std::vector<NodeId> peak_at;  // by device: the node of its graph
  int64_t peak() const;         // of the device that held most
  int64_t fullest_device() const;
};

}  // namespace cleave
