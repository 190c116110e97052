#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/reshard/reshard.h"

namespace cleave {

// A tensor of integers as all devices hold it: what property tests run reshards on. Every shard is
// its true elements, row-major; a device is known by its id.
struct SimulatedTensor {
  Shape shape;
  ShardingSpec spec;
  std::vector<std::vector<int64_t>> shards;  // by device id
};

// Cuts the global tensor, row-major, into shards. Where the spec is partial, each element is
// decomposed into parts that its reduction puts together again; `seed` chooses them. Under `and`
// and `or` elements count as 0 or 1; under `avg` they must be multiples of the number of parts.
SimulatedTensor distribute(std::span<const int64_t> global, const ShardingSpec& spec,
                           const Shape& shape, uint64_t seed = 0);

// Runs one step as the collective that it is: a device sees its own shard and, for a collective,
// those of the devices that differ from it along the step's axes only (for a permute, that of its
// source). Throws InternalError where an element that the step's spec asks for is not among them.
SimulatedTensor simulate(const SimulatedTensor& tensor, const ReshardStep& step);
SimulatedTensor simulate(const SimulatedTensor& tensor, const ReshardPlan& plan);

// The global tensor, partials reduced. Throws InternalError where replicas disagree, or where a
// device does not hold exactly its shard.
std::vector<int64_t> collect(const SimulatedTensor& tensor);

}  // namespace cleave
