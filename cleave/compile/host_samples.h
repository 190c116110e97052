#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/kernel_classes.h"
#include "cleave/machine/fit.h"

namespace cleave {

inline constexpr int64_t kTableRows = 4096;  // that gathers and scatters choose from

inline constexpr const char* kFusedPasses = "cleave-simplify,cleave-fuse";

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

// A module that is compiled to one kernel of several ops.
struct FusedSample {
  std::string what, text;
  std::vector<FusionTiming::Loop> loops;
  bool is_check = false;
};
// Chains of arithmetic and of functions, and sums and norms, in f32 and bf16: those that the fit
// uses on values that the cache holds, others to check it.
std::vector<FusedSample> fused_samples();

// Two of them: one that is limited by memory, and one that is limited by arithmetic.
HostSample memory_sample();
HostSample compute_sample();

}  // namespace cleave
