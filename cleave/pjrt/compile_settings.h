#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::pjrt {

// How a module is compiled: for how many devices, and by which partitioner.
struct CompileSettings {
  int64_t replicas = 1;
  int64_t partitions = 1;
  // Shardings of the module are followed: `mhlo.sharding` by the older partitioner, `sdy` ops and
  // attributes by Shardy.
  bool spmd_partitioning = false;
  bool shardy = false;
  // The ids of the client's devices, by replica and partition; empty: the plugin chooses.
  std::vector<int64_t> devices = {};
};

// As a serialized CompileOptionsProto. The same settings give the same bytes.
std::string serialize(const CompileSettings& settings);

}  // namespace cleave::pjrt
