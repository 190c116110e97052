#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/machine/fit.h"
#include "cleave/machine/profile.h"

namespace cleave {

// What a user measured on a device with the script that `cleave calibrate --emit` prints, and the
// profile that explains it.

enum class MeasuredKind : uint8_t {
  Product,      // products
  Convolution,  // the same as one product, and its bytes
  Elementwise,  // one pass over memory: bytes
  Reduction,    // the same with a sum at the end
  Rows,         // softmax, norms
  Transpose,    // one operand is read in another order
  Strided,      // the same with short rows
  Arithmetic,   // so many ops that memory does not matter: ops
  Launch,       // a chain of small kernels: count
  Arguments,    // a program that does next to nothing: count of its arguments
};
inline constexpr int kNumMeasuredKinds = 10;
std::string_view name(MeasuredKind kind);  // "product", "convolution", ...

struct MeasuredKernel {
  MeasuredKind kind = MeasuredKind::Elementwise;
  DType dtype = DType::F32;
  OpCost::Products products = {};
  double bytes = 0, ops = 0, count = 0;
  double seconds = 0;
  bool is_check = false;  // not used by the fit
};

struct DeviceMeasurements {
  std::string device, framework, executor;
  int64_t units = 0;        // 0: not known
  double memory_bytes = 0;  // 0: not known
  std::vector<MeasuredKernel> kernels;
  std::vector<CollectiveTiming> collectives;
};
// Throws UserError that names the entry and what is wrong with it.
DeviceMeasurements measurements_from_json(std::string_view text);
std::string measurements_to_json(const DeviceMeasurements& measured);

// The profile of a device from one that is like it: bandwidth, launches, shares, rates and tiles
// are those that explain the measurements best; what was not measured stays that of `base`.
MachineProfile fit_device(const DeviceMeasurements& measured, const MachineProfile& base);

// A profile is about kernels of whole steps, and a script runs kinds of kernels by themselves: the
// launch of a kernel in a step, and shares of the bandwidth there, over those of a kernel alone.
// Both were measured with XLA on an H200; 1 for what was not.
struct InStep {
  double launch = 1, reduction = 1, rows = 1, strided = 1;
};
InStep in_step(const ExecutorProfile& executor);

// Seconds that a profile predicts for a kernel by itself.
double predicted_seconds(const MeasuredKernel& kernel, const MachineProfile& profile);

// |predicted / measured - 1| of what the fit used and of what it did not see, by kind and dtype, in
// that order; then of collectives by kind.
struct FitErrors {
  std::string what;  // "product bf16"
  struct Row {
    size_t count = 0;
    double median = 0, worst = 0;
  };
  Row fitted, checked;
};
std::vector<FitErrors> fit_errors(const DeviceMeasurements& measured,
                                  const MachineProfile& profile);

}  // namespace cleave
