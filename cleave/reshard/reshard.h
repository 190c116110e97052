#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/all_to_all.h"
#include "cleave/core/dtype.h"
#include "cleave/core/shape.h"
#include "cleave/core/sharding.h"
#include "cleave/machine/profile.h"

namespace cleave {

// The way from one spec of a tensor to another: a list of steps, priced and executable.
//
// What each step does to a spec:
//
//   AllGather            removes axes from the minor end of dimensions
//                        [{"x", "y"}, {"z"}] -- [{"y"}, {"z"}] --> [{"x"}, {}]
//   AllSlice             appends replicated axes to the minor end of dimensions; nothing is sent
//                        [{"x"}, {}] -- [{"y"}, {"z"}] --> [{"x", "y"}, {"z"}]
//   AllToAll             moves axes from the minor end of one dimension to that of another
//                        [{"x", "y"}, {}] -- {"y"}: 0->1 --> [{"x"}, {"y"}]
//   CollectivePermute    any other arrangement with as many shards in every dimension (and as many
//                        parts of a partial): whole shards change devices
//                        [{"x"}, {"y"}] --> [{"y"}, {"x"}]
//   ReduceScatter        appends partial axes to the minor end of dimensions, completing them
//   AllReduce            completes partial axes: they become replicated
//   ReplicatedToPartial  makes replicated axes partial; local: all but the first keep the identity
//                        of the reduction (the value itself under max, min, and, or, avg)
//   ShardedToPartial     makes axes of the minor end of dimensions partial; local: the shard is
//                        padded with the identity (sum, or, and, prod, max and min have one)
//   Scatter              a single device sends every device of a mesh its shard
//   Gather               a single device gets the elements that it lacks from a mesh (or from
//                        another single device)
//   Relabel              the same elements on the same devices under another mesh; nothing is sent
//
// Uneven dimensions. A dimension of n over w shards has chunks of ceil(n/w) of the whole dimension
// by all its axes together, so that {"x", "y"} with 9 over 2x2 holds 3,3,3,0 and {"x"} alone 5,4:
// the shards of one "x" group do not make up the shard of {"x"}. A step is therefore used on a
// dimension only if the borders of the coarser split are borders of the finer one (`chunks_nest`).
// They always are if one of the two is the whole dimension, or if the finer split is even. Then
// each step is the plain collective within the groups of its axes, on the true elements of each
// shard, short and empty ones included. Permutes move whole shards and are valid on any dimension.
enum class StepKind : uint8_t {
  AllGather,
  AllSlice,
  AllToAll,
  CollectivePermute,
  ReduceScatter,
  AllReduce,
  ReplicatedToPartial,
  ShardedToPartial,
  Scatter,
  Gather,
  Relabel,
};
std::string_view name(StepKind kind);  // "all_gather", ...
std::optional<StepKind> step_kind_from_name(std::string_view name);

struct ReshardStep {
  StepKind kind = StepKind::Relabel;
  // By dimension: AllGather, AllSlice, ReduceScatter, ShardedToPartial. Empty for the others.
  std::vector<AxisList> dim_axes;
  std::vector<AllToAllMove> moves;  // AllToAll; no dimension appears twice
  AxisList axes;   // every axis that the step works on, in mesh order; empty for CollectivePermute
  AxisList links;  // the axes along which devices exchange something; empty for local steps
  double buffer = 0;  // of a collective: bytes of the larger side of a device's buffer
  ShardingSpec after;
  int64_t bytes = 0;  // received by one device, at most
  double seconds = 0;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  double seconds = 0;
  int64_t bytes = 0;       // received by one device, at most
  int64_t peak_bytes = 0;  // operand and result of a step together, at most, on one device
};

// What a reshard takes: alone, and by what does the work if it runs among many others, where
// collectives that run as one take their shares of it (share_of_combined).
struct ReshardPrice {
  double seconds = 0;  // alone
  double local = 0;    // of which the device copies
  double inside = 0;   // collectives inside nodes, shares
  double across = 0;   // collectives across nodes, shares
  ReshardPrice& operator+=(const ReshardPrice& other) {
    seconds += other.seconds;
    local += other.local;
    inside += other.inside;
    across += other.across;
    return *this;
  }
};

struct ReshardOptions {
  std::optional<int64_t> memory;  // bound on peak_bytes
  int max_states = 1000;          // of the search; a cut search still returns a valid plan
  // Axes are moved as a whole, never in smaller parts. For callers that ask very often: if shards
  // are even, one pass from each source answers for all targets.
  bool whole_axes = false;
  // With whole_axes: axes that are moved in these parts instead, all parts of each, in mesh order.
  AxisList parts = {};
};

// Whether a dimension of n elements split over `coarse` shards has its borders among those of the
// split over `coarse * ratio`.   9, 2, 2 -> false;  9, 1, 4 -> true;  8, 2, 2 -> true
bool chunks_nest(int64_t n, int64_t coarse, int64_t ratio);

// The cheapest steps from `from` to `to`; the same ones for the same arguments, always. The
// result's last `after` has the layout of `to` (openness, priorities and explicitly replicated axes
// are taken from `to`). The meshes may differ in axes and order of devices, not in the number of
// devices, unless one is a single device. Throws UserError if the meshes have different devices
// or no way stays within the memory.
ReshardPlan plan_reshard(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                         DType dtype, const MachineProfile& profile,
                         const ReshardOptions& options = {});

// The same for callers that ask often: keeps what it learnt about the links of each mesh's axes.
// Not to be shared between threads.
class Resharder {
 public:
  explicit Resharder(MachineProfile profile, ReshardOptions options = {});
  ~Resharder();
  Resharder(Resharder&&) noexcept;
  Resharder& operator=(Resharder&&) noexcept;

  ReshardPlan plan(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                   DType dtype);
  // plan(...).seconds, for specs that were verified before.
  double seconds(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape, DType dtype);
  ReshardPrice price(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                     DType dtype);
  // The same from each of a list to each of another, row by row.
  std::vector<ReshardPrice> table(const std::vector<const ShardingSpec*>& from,
                                  const std::vector<const ShardingSpec*>& to, const Shape& shape,
                                  DType dtype);
  const MachineProfile& profile() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A single step of the given kind between two specs, with its axes, bytes and seconds; throws
// UserError if the kind cannot lead from one to the other. Prices sequences that others found.
ReshardStep make_step(StepKind kind, const ShardingSpec& before, const ShardingSpec& after,
                      const Shape& shape, DType dtype, const MachineProfile& profile);

// Of a CollectivePermute: the device that sends its shard to each device, by the id of the
// receiver. A device that has the shard that it needs keeps it; the others are served by a device
// that differs from them along changed axes only.
std::vector<int64_t> permute_sources(const ShardingSpec& before, const ShardingSpec& after);

// all_gather [{"y"}, {}] -> [{"x"}, {}]
std::string to_string(const ReshardStep& step);

}  // namespace cleave
