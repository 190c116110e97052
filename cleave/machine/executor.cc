#include "cleave/machine/executor.h"

#include <fmt/ranges.h>

#include "cleave/core/error.h"

namespace cleave {
namespace {

const std::vector<Executor>& executors() {
  static const std::vector<Executor> all = {
      {.name = "eager", .launch_us = 2.2, .vector_tops = 14},
      {.name = "xla-gpu",
       .fuses = true,
       .recomputes = true,
       .merges_siblings = true,
       .launch_us = 2.3,
       .argument_us = 3,
       .reduction_share = 0.83,
       .rows_share = 0.81,
       .transpose_share = 0.85,
       .strided_share = 0.21,
       .short_row = 16,
       .longest_row = 16384,
       .most_reads = 24,
       .vector_tops = 14},
  };
  return all;
}

}  // namespace

const Executor& builtin_executor(std::string_view name) {
  for (const Executor& executor : executors())
    if (executor.name == name) return executor;
  throw_user("there is no executor {}; there are {}", name,
             fmt::join(builtin_executor_names(), ", "));
}

const std::vector<std::string>& builtin_executor_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Executor& executor : executors()) all.push_back(executor.name);
    return all;
  }();
  return names;
}

}  // namespace cleave
