#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cleave/machine/collective.h"

namespace cleave {

// Compilers and frameworks run several small collectives of one kind over one group as one, because
// each by itself costs a latency. XLA on GPUs combines up to 30 MiB (flags of the form
// xla_gpu_all_reduce_combine_threshold_bytes, for all_reduce, all_gather and reduce_scatter), DDP
// fills buckets of 25 MiB.
inline constexpr double kXlaCombineBytes = 30.0 * 1024 * 1024 + 7;
inline constexpr double kDdpBucketBytes = 25.0 * 1024 * 1024;

// XLA counts the bytes of results, CollectiveCost those of the larger side of a buffer, which for a
// reduce_scatter is the operand: `ranks` times its result.
double combine_limit(CollectiveKind kind, double result_bytes, int64_t ranks);

// Which of the collectives run as one, by their place in `bytes`; the sets and the places in them
// ascend. They are taken in order, as long as their sum is at most `limit`; one that is larger than
// the limit runs alone and does not interrupt the others. A limit of 0 combines nothing.
//   {4, 4, 4}, 8 -> {0, 1}, {2};   {4, 9, 4}, 8 -> {0, 2}, {1};   {4, 4}, 0 -> {0}, {1}
std::vector<std::vector<size_t>> combine(std::span<const double> bytes, double limit);

// Seconds of all of them, combined up to the limit: the cost of each sum. A cost is concave in
// bytes and free for nothing, so that it never exceeds the sum of the collectives' own costs.
double combined_seconds(std::span<const double> bytes, double limit, const CollectiveCost& cost);

// What a collective takes at least as one of many that run as one: its share of the largest set
// that runs as one, by bytes. No way to combine collectives takes less than the sum of their
// shares, because a cost is concave and free for nothing.
CollectiveCost share_of_combined(const CollectiveCost& cost, double limit);

}  // namespace cleave
