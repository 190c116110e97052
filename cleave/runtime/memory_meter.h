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

  // Asks to keep which buffers were there at which steps, and what each step reached.
  void keep_history() { keeps_history_ = true; }
  struct Step {
    NodeId node;          // of the device's graph
    int64_t reached = 0;  // bytes that were held at most during it, the kernel's own included
  };
  // A buffer, or what a later view added to it, at the steps from `first` to `last`.
  struct Span {
    const void* buffer = nullptr;
    int64_t bytes = 0;
    int64_t first = 0, last = 0;
  };
  const std::vector<Step>& steps() const { return steps_; }
  // In the order in which they ended; the ones that are still held come last, in any order.
  std::vector<Span> spans() const;

  // A value begins and ends.
  void hold(const Array& array);
  void release(const Array& array);

  int64_t holders(const Array& array) const;  // values that share the buffer

  // Around a step: `begin` before the kernel, `end` when its results are held and its operands are
  // too. Steps may nest. `counts_allocations`: what the kernel allocated is its own. `taken_over`:
  // bytes of the result that would stand in the memory of an operand if devices did not share
  // arrays; `result`: its buffer.
  struct Mark {
    int64_t live, allocated, outer_peak;
  };
  Mark begin();
  void end(const Mark& mark, NodeId node, bool counts_allocations, int64_t taken_over = 0,
           const void* result = nullptr);

 private:
  struct Held {
    int64_t bytes = 0;
    int64_t count = 0;
  };
  void reach(int64_t bytes, NodeId node);
  void note_step(NodeId node, int64_t reached, int64_t taken_over, const void* result);
  void close(const void* buffer);

  std::map<const void*, Held> held_;  // by buffer
  int64_t live_ = 0, peak_ = 0;
  NodeId peak_at_;
  int64_t peak_step_ = -1, note_at_ = -1;
  std::vector<int64_t> timeline_;
  std::vector<std::pair<const void*, int64_t>> noted_;
  bool keeps_history_ = false;
  std::vector<Step> steps_;
  std::map<const void*, std::vector<Span>> open_;  // by buffer that is held
  std::vector<Span> closed_;
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
