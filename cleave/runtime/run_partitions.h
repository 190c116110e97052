#pragma once

#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/spmd/single_program.h"

namespace cleave {

// For how many devices a function is the program of one: mhlo.num_partitions of the module if all
// arguments and results are marked {manual} (spmd_module), and 1 otherwise. JAX's modules for
// several partitions speak of whole tensors, and are programs of one device.
int64_t num_partitions(const Graph& graph, std::string_view entry);

// Runs a module that is the same for all partitions on as many virtual devices of this process.
// Arguments and results are by device, then by number. The graph must have been verified.
std::vector<std::vector<Array>> run_partitions(const Graph& graph, std::string_view entry,
                                               const std::vector<std::vector<Array>>& args,
                                               Observer* observer = nullptr);

// A shard in the leading corner of a larger array. The rest has all bits set, which is NaN in the
// float formats that have one: nothing may depend on it.
Array padded_to(const Array& part, const Shape& shape);
Array leading_corner(const Array& array, const Shape& shape);

// The arrays of all devices: each device's shard in the leading corner of a padded array.
std::vector<Array> padded_shards(const SingleProgram::Port& port, const Array& whole,
                                 int64_t devices);
// The shard in that corner.
Array true_shard(const SingleProgram::Port& port, const Array& padded, int64_t device);
// The whole tensor from the padded arrays of all devices; pending reductions are completed.
Array joined_shards(const SingleProgram::Port& port, const std::vector<Array>& padded);

}  // namespace cleave
