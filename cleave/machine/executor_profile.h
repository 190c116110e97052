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
  bool runs_library_ops = false;  // what one op of a framework's library does is one kernel
  bool updates_together = false;  // one kernel for all updates of donated arguments: an optimizer
  bool adds_bias = false;         // a product adds a vector to its result in its own kernel
  bool flash_attention = false;   // scores of attention are never written
  bool tf32 = false;              // products of f32 run in tf32 unless the program forbids it
  bool overlaps = false;          // collectives run beside computation
  double overlap_slowdown = 0;    // kernels beside a collective take longer by this share
  double launch_us = 0;           // of a kernel, the gap before it included
  double host_us = 0;             // of the host, by kernel, while the device runs earlier ones
  double step_us = 0;             // of the host, once a step
  double argument_us = 0;         // of the host, by argument of a step
  double elementwise_share = 1;   // of the bandwidth: kernels without what follows
  double reduction_share = 1;     // kernels that end in a reduction
  double rows_share = 1;          // kernels with a reduction of rows inside: softmax, norms
  double transpose_share = 1;     // kernels that read one operand in another order
  double strided_share = 1;       // the same if rows of one order are short
  int64_t short_row = 0;          // elements
  int64_t longest_row = 0;        // a row reduction that is fused with what uses it
  int64_t most_reads = 0;         // operands of a kernel
  double update_share = 1;        // of the bandwidth: updates that are made together
  double product_share = 1;       // of the rate of products, in steps that do little else
  double vector_tops = 0;         // elementwise ops, 1e12 per second
  double function_ops = 1;        // that sines and powers count as, computed for every element
  double rows_tops = 0;        // the same in kernels with a reduction of rows inside; 0: no limit
  int64_t row_elements = 0;    // rows inside kernels are a multiple of so many; 0: any
  double integer_work = 1;     // an op on integers, in others
  double window_work = 1;      // a slice, pad or concatenation inside a kernel, in other ops
  double collision_us = 0;     // an update of a scatter that waits for another of the same place
  double exchange_us = 0;      // the same of numbers narrower than a word, by the logarithm of all
  double long_function = 0;    // what a function such as tanh takes, in ops
  int64_t long_chain = 0;      // ops behind a value that is rather kept; 0: none
  double reorder_bytes = 0;    // an element of a convolution's kernel that the optimizer reorders
  double loop_launch_us = 0;   // of a kernel inside a loop; 0: as others
  double trip_launches = 0;    // of a loop itself, in every trip: its counter, copies of carries
  int64_t most_copies = 0;     // of one op's code in a kernel; 0: any number
  double workspace_bytes = 0;  // that products of a library ask for
  double memory_share = 1;     // of the device's memory, what programs can use
  bool operator==(const ExecutorProfile&) const = default;
};

// Whether it is the compiler of this library, whose own passes say what it fuses: `cleave`.
bool is_this_library(const ExecutorProfile& executor);
// Whether it is XLA's compiler for CPUs, whose steps are followed to say what it holds.
bool is_xla_cpu(const ExecutorProfile& executor);

const ExecutorProfile& builtin_executor(
    std::string_view name);  // throws UserError that lists the names
const std::vector<std::string>& builtin_executor_names();

}  // namespace cleave
