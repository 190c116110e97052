#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/kernel_classes.h"

namespace cleave {

inline constexpr int64_t kTableRows = 4096;  // that gathers and scatters choose from

// A small module whose ops all do the same, so that what a call costs is spread over them.
struct HostSample {
  std::string what;  // "matmul f32 256x256x256"
  std::string text;  // a module with @main
  std::string op;    // the ops to count; empty: the whole function is one kernel of `kernel`
  KernelClass kernel = KernelClass::Elementwise;
  std::string without = {};  // a module whose time is taken off: what else the function does
  bool is_check = false;     // not used by the fit: shows how well it predicts
  std::string passes = "cleave-fuse{most-nodes=1}";  // of the compiler: every op is a step
};

// What a calibration runs: every class of kernels by dtype, from sizes that are all overhead to
// what no cache holds, and other sizes, shapes and ops to check the fit with.
std::vector<HostSample> host_samples();

// Two of them: one that is limited by memory, and one that is limited by arithmetic.
HostSample memory_sample();
HostSample compute_sample();

}  // namespace cleave
