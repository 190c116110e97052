#pragma once

#include <cstdint>
#include <string_view>

namespace cleave {

// The bytes that this process can still get: what the system calls available, or less if a control
// group or a limit on the address space (ulimit -v) allows less.
int64_t available_memory();

// Throws UserError if `bytes` cannot fit, before anything is allocated:
//   "a tensor of 1000003x1000003: 3.64 TiB are needed, and 12.1 GiB of memory are available"
// Small requests are not checked.
void check_fits(int64_t bytes, std::string_view what);

}  // namespace cleave
