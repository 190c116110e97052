#pragma once

#include <cstddef>
#include <cstdint>

namespace cleave {

// Counts what tensors hold on each device, for `memory_in_use`.
void add_device_bytes(size_t device, int64_t bytes);

}  // namespace cleave
