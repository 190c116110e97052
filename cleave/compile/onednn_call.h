#pragma once

#include <vector>

#include "cleave/compile/device_code.h"
#include "cleave/compile/epilogue.h"
#include "cleave/kernels/loop.h"
#include "cleave/kernels/onednn.h"

namespace cleave {

// A primitive of oneDNN with its arguments, made once and called often: with the caller's scratch
// memory, and without an allocation of ours.
class OneDnnCall {
 public:
  OneDnnCall() = default;
  explicit OneDnnCall(dnnl::primitive primitive) : primitive_(std::move(primitive)) {}

  // An argument that lies at `offset` bytes in a view of the code, or in scratch memory.
  void add(int id, const dnnl::memory::desc& desc, const CodeView* view, int64_t offset);
  void add_scratch(int id, const dnnl::memory::desc& desc, size_t offset) {
    add(id, desc, nullptr, static_cast<int64_t>(offset));
  }
  bool valid() const { return static_cast<bool>(primitive_); }

  void run(const Frame& frame, std::byte* scratch);
  // Where argument i was in the last call.
  std::byte* at(size_t i) const { return static_cast<std::byte*>(arguments_[i].at); }

 private:
  struct Argument {
    const CodeView* view = nullptr;
    int64_t offset = 0;
    dnnl::memory data;
    void* at = nullptr;
  };
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  std::vector<dnnl_exec_arg_t> handles_;
};

// From one layout to another.
OneDnnCall reorder_call(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

// The algorithm for a step of an epilogue that oneDNN does itself.
dnnl::algorithm onednn_algorithm(EpilogueStep::Kind kind);

// Maxima and minima with constants, on elements that are still in the cache: oneDNN's own lose NaN.
class ClipTail {
 public:
  explicit ClipTail(DType dtype);
  void add(bool is_maximum, double value);
  bool empty() const { return clips_.empty(); }
  void run(std::byte* at, int64_t count) const;

 private:
  static constexpr int64_t kChunk = 512;
  struct Clip {
    Loop loop;
    std::vector<float> value;  // a chunk of it
  };
  DType dtype_;
  Loop widen_ = nullptr, narrow_ = nullptr;  // of 16 bits
  std::vector<Clip> clips_;
};

}  // namespace cleave
