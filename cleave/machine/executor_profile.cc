#include "cleave/machine/executor_profile.h"

#include <fmt/ranges.h>

#include "cleave/core/error.h"

namespace cleave {
namespace {

// NCCL runs on processors of the GPU and takes some of its memory's bandwidth.
constexpr double kNcclSlowdown = 0.3;

ExecutorProfile xla_gpu() {
  return {.name = "xla-gpu",
          .fuses = true,
          .recomputes = true,
          .merges_siblings = true,
          .tf32 = true,
          .overlaps = true,
          .overlap_slowdown = kNcclSlowdown,
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
          .vector_tops = 14,
          .rows_tops = 3.2,
          .row_elements = 8,
          .integer_work = 0.4,
          .window_work = 7,
          .collision_us = 0.008,
          .exchange_us = 0.4,
          .long_function = 14,
          .long_chain = 60,
          .reorder_bytes = 20,
          .loop_launch_us = 1.4,
          .trip_launches = 2,
          .most_copies = 3,
          .workspace_bytes = 32 << 20,
          .memory_share = 0.75};
}

// XLA's rules; a TPU launches no kernels one by one, and its links need no cores of it.
ExecutorProfile xla_tpu() {
  ExecutorProfile executor = xla_gpu();
  executor.name = "xla-tpu";
  executor.tf32 = false;
  executor.overlap_slowdown = 0;
  executor.launch_us = executor.loop_launch_us = 0.5;
  executor.rows_tops = executor.workspace_bytes = executor.reorder_bytes = 0;
  executor.row_elements = 0;
  executor.window_work = 1;
  executor.collision_us = executor.exchange_us = 0;
  executor.step_us = 50;
  executor.argument_us = 0.5;
  executor.memory_share = 0.96;
  return executor;
}

// XLA's rules on a processor: loops instead of kernels, which begin at once, and collectives that
// wait. What they take is measured (`cleave calibrate --engine xla:cpu`).
ExecutorProfile xla_cpu() {
  return {.name = "xla-cpu",
          .fuses = true,
          .recomputes = true,
          .launch_us = 1,
          .step_us = 50,
          .argument_us = 0.3,
          .longest_row = 1 << 20,
          .most_reads = 24,
          .long_function = 14};
}

// PyTorch without its compiler: an op of its library is one kernel, and the host launches one after
// the other.
ExecutorProfile eager() {
  return {.name = "eager",
          .fuses = true,
          .runs_library_ops = true,
          .updates_together = true,
          .adds_bias = true,
          .flash_attention = true,
          .overlaps = true,
          .overlap_slowdown = kNcclSlowdown,
          .launch_us = 2.2,
          .host_us = 37,
          .elementwise_share = 0.87,
          .reduction_share = 0.5,
          .rows_share = 0.5,
          .transpose_share = 0.6,
          .strided_share = 0.21,
          .short_row = 16,
          .longest_row = 1 << 20,
          .most_reads = 24,
          .update_share = 0.78,
          .product_share = 0.86,
          .vector_tops = 14,
          .memory_share = 0.9};
}

// Its compiler fuses as XLA's does; the optimizer is not compiled, and the host launches kernels.
ExecutorProfile inductor() {
  ExecutorProfile executor = xla_gpu();
  executor.name = "inductor";
  executor.updates_together = true;
  executor.adds_bias = true;
  executor.flash_attention = true;
  executor.tf32 = false;
  executor.host_us = 33;
  executor.update_share = 0.78;
  executor.product_share = 0.86;
  executor.function_ops = 125;
  executor.rows_tops = executor.loop_launch_us = executor.trip_launches = 0;
  executor.long_function = executor.reorder_bytes = executor.workspace_bytes = 0;
  executor.most_copies = executor.row_elements = executor.long_chain = 0;
  executor.integer_work = executor.window_work = 1;
  executor.collision_us = executor.exchange_us = 0;
  executor.step_us = executor.argument_us = 0;
  executor.memory_share = 0.9;
  return executor;
}

constexpr std::string_view kThisLibrary = "cleave";
constexpr std::string_view kXlaCpu = "xla-cpu";

// What it fuses, its passes say; what its kernels take is measured (`cleave calibrate`).
ExecutorProfile cleave_compiler() { return {.name = std::string(kThisLibrary), .fuses = true}; }

const std::vector<ExecutorProfile>& executors() {
  static const std::vector<ExecutorProfile> all = {xla_gpu(),  xla_tpu(), xla_cpu(),
                                                   inductor(), eager(),   cleave_compiler()};
  return all;
}

}  // namespace

bool is_this_library(const ExecutorProfile& executor) { return executor.name == kThisLibrary; }
bool is_xla_cpu(const ExecutorProfile& executor) { return executor.name == kXlaCpu; }

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
