#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

// Who runs a program on the device, and what becomes of its ops there: plain data. Rates are
// shares of the profile's bandwidth.
struct Executor {
  std::string name;
  bool fuses = false;  // elementwise ops, views and reductions become kernels together
  // A value with several users is computed again in each if that moves fewer bytes.
  bool recomputes = false;
  bool merges_siblings = false;  // kernels over the same large operand become one
  double launch_us = 0;          // of a kernel, the gap before it included
  double argument_us = 0;        // of the host, by argument of a step
  double reduction_share = 1;    // of the bandwidth: kernels that end in a reduction
  double rows_share = 1;         // kernels with a reduction of rows inside: softmax, norms
  double transpose_share = 1;    // kernels that read one operand in another order
  double strided_share = 1;      // the same if rows of one order are short
  int64_t short_row = 0;         // elements
  int64_t longest_row = 0;       // a row reduction that is fused with what uses it
  int64_t most_reads = 0;        // operands of a kernel
  double vector_tops = 0;        // elementwise ops, 1e12 per second
};

const Executor& builtin_executor(std::string_view name);  // throws UserError that lists the names
const std::vector<std::string>& builtin_executor_names();

}  // namespace cleave
