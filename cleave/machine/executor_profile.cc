#include "cleave/machine/executor_profile.h"

#include <fmt/ranges.h>

#include "cleave/core/error.h"

namespace cleave {
namespace {

ExecutorProfile xla_gpu() {
  return {.name = "xla-gpu",
          .fuses = true,
          .recomputes = true,
          .merges_siblings = true,
          .tf32 = true,
          .overlaps = true,
          .launch_us = 2.3,
          .step_us = 200,
          .argument_us = 3,
          .reduction_share = 0.83,
          .rows_share = 0.81,
          .transpose_share = 0.85,
          .strided_share = 0.21,
          .short_row = 16,
          .longest_row = 16384,
          .most_reads = 24,
          .vector_tops = 14};
}

// XLA's rules; a TPU launches no kernels one by one.
ExecutorProfile xla_tpu() {
  ExecutorProfile executor = xla_gpu();
  executor.name = "xla-tpu";
  executor.tf32 = false;
  executor.launch_us = 0.5;
  executor.step_us = 50;
  executor.argument_us = 0.5;
  return executor;
}

ExecutorProfile eager() {
  return {.name = "eager",
          .flash_attention = true,
          .overlaps = true,
          .launch_us = 2.2,
          .reduction_share = 0.83,
          .rows_share = 0.81,
          .transpose_share = 0.85,
          .strided_share = 0.21,
          .short_row = 16,
          .vector_tops = 14};
}

ExecutorProfile inductor() {
  ExecutorProfile executor = xla_gpu();
  executor.name = "inductor";
  executor.flash_attention = true;
  executor.tf32 = false;
  executor.step_us = executor.argument_us = 0;
  return executor;
}

constexpr std::string_view kThisLibrary = "cleave";

// What it fuses, its passes say; what its kernels take is measured (`cleave calibrate`).
ExecutorProfile cleave_compiler() { return {.name = std::string(kThisLibrary), .fuses = true}; }

const std::vector<ExecutorProfile>& executors() {
  static const std::vector<ExecutorProfile> all = {xla_gpu(), xla_tpu(), inductor(), eager(),
                                                   cleave_compiler()};
  return all;
}

}  // namespace

bool is_this_library(const ExecutorProfile& executor) { return executor.name == kThisLibrary; }

const ExecutorProfile& builtin_executor(std::string_view name) {
  for (const ExecutorProfile& executor : executors())
    if (executor.name == name) return executor;
  throw_user("there is no executor '{}'; there are {}", name,
             fmt::join(builtin_executor_names(), ", "));
}

const std::vector<std::string>& builtin_executor_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const ExecutorProfile& executor : executors()) all.push_back(executor.name);
    return all;
  }();
  return names;
}

}  // namespace cleave
