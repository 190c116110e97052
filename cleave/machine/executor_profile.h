#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

// What compiles a program for the device, and what becomes of the program's ops there: plain data.
// Rates are shares of the profile's bandwidth. docs/guide/machines.md says where each number comes
// from.
struct ExecutorProfile {
  std::string name;              // empty: every op is a kernel of its own, as it was measured alone
  bool fuses = false;            // elementwise ops, views and reductions become kernels together
  bool recomputes = false;       // what has several users is computed in each if that moves less
  bool merges_siblings = false;  // kernels over the same large operand become one
  bool flash_attention = false;  // scores of attention are never written
  bool tf32 = false;             // products of f32 run in tf32 unless the program forbids it
  bool overlaps = false;         // collectives run beside computation
  double launch_us = 0;          // of a kernel, the gap before it included
  double step_us = 0;            // of the host, once a step
  double argument_us = 0;        // of the host, by argument of a step
  double reduction_share = 1;    // of the bandwidth: kernels that end in a reduction
  double rows_share = 1;         // kernels with a reduction of rows inside: softmax, norms
  double transpose_share = 1;    // kernels that read one operand in another order
  double strided_share = 1;      // the same if rows of one order are short
  int64_t short_row = 0;         // elements
  int64_t longest_row = 0;       // a row reduction that is fused with what uses it
  int64_t most_reads = 0;        // operands of a kernel
  double vector_tops = 0;        // elementwise ops, 1e12 per second
  bool operator==(const ExecutorProfile&) const = default;
};

// Whether it is the compiler of this library, whose own passes say what it fuses: `cleave`.
bool is_this_library(const ExecutorProfile& executor);

const ExecutorProfile& builtin_executor(
    std::string_view name);  // throws UserError that lists the names
const std::vector<std::string>& builtin_executor_names();

}  // namespace cleave
