#pragma once

#include <span>
#include <string>
#include <vector>

#include "cleave/machine/profile.h"

namespace cleave {

// The time of one kernel.
struct KernelTiming {
  std::string what;  // "matmul f32 256x256x256"
  OpCost cost;
  DType dtype = DType::F32;
  double seconds = 0;
  bool is_check = false;  // not used by the fit
};

// The time of one kernel that computes several ops, block by block in the cache.
struct FusionTiming {
  struct Loop {
    std::string op;  // a key of MachineProfile::loops
    double elements = 0;
  };
  std::string what;  // "gelu f32 of 65536"
  DType dtype = DType::F32;
  std::vector<Loop> loops;    // its ops
  std::vector<double> bytes;  // of every value that enters or leaves it
  double seconds = 0;
  bool is_check = false;
};

// The time of one collective over all `ranks` devices of a mesh of one axis.
struct CollectiveTiming {
  CollectiveKind kind = CollectiveKind::AllGather;
  int64_t ranks = 2;
  double bytes = 0;  // the larger side of a device's buffer
  double seconds = 0;
};

// What was measured of one host whose virtual devices share its cores.
struct HostTimings {
  std::string name = "this host";
  double memory_bytes = 0;
  int64_t cores = 1;
  std::vector<KernelTiming> kernels;  // of one device alone
  std::vector<FusionTiming> fusions;  // the same
  // How much longer a kernel takes when `cores` devices run it at the same time: one that is
  // limited by arithmetic, and one by memory.
  double slowdown = 1, memory_slowdown = 1;
  std::vector<CollectiveTiming> collectives;
};

// The profile that explains the timings, in the terms that op_seconds and collective_cost know:
// floors from the smallest kernels, rates from the largest, the size of the cache and the ramp of
// matmuls by least relative error; every other class and dtype gets the curve of its times, the
// mean of those that move about as much. What an op takes inside a fused kernel follows from
// kernels that the cache holds. The executor is `cleave`. Rates and collectives without timings
// keep the values of the default profile.
MachineProfile fit_profile(const HostTimings& timings);

// Seconds that the profile predicts for a collective that was timed: all devices busy.
double predicted_seconds(const CollectiveTiming& timing, const MachineProfile& profile);
double predicted_seconds(const FusionTiming& timing, const MachineProfile& profile);

// The median of |predicted / measured - 1|; 0 if there is nothing.
double median_error(std::span<const KernelTiming> timings, const MachineProfile& profile);
double median_error(std::span<const FusionTiming> timings, const MachineProfile& profile);
double median_error(std::span<const CollectiveTiming> timings, const MachineProfile& profile);

// The same by class and dtype, fitted and checked apart; in that order.
struct ErrorSummary {
  KernelClass kernel = KernelClass::Elementwise;
  DType dtype = DType::F32;
  size_t fitted = 0, checked = 0;  // timings
  double fitted_error = 0, checked_error = 0;
};
std::vector<ErrorSummary> errors_by_class(std::span<const KernelTiming> timings,
                                          const MachineProfile& profile);

}  // namespace cleave
