#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/dtype.h"
#include "cleave/core/kernel_classes.h"
#include "cleave/machine/executor_profile.h"

namespace cleave {

// What the hardware can do, as plain data. Times are microseconds and rates are 1e12 FLOP/s or 1e9
// bytes/s here, because that is how people write them; every function returns seconds.

enum class CollectiveKind : uint8_t {
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  Permute,
};
inline constexpr int kNumCollectiveKinds = 5;
std::string_view name(CollectiveKind kind);  // "all_gather", ...
std::optional<CollectiveKind> collective_kind_from_name(std::string_view name);

std::string_view name(KernelClass kernel_class);  // "elementwise", ...

// One way in which a machine runs a collective over `ranks` devices, `per_node` of them on each of
// `nodes` nodes:
//
//   time = base_us + ring_us * (ranks - nodes) + inside_us * (per_node - 1)
//          + across_us * (nodes - 1) + across_log2_us * log2(nodes)
//          + across_base_us, if there are several nodes  +  traffic / rate  +  S / n / local_gbps
//
// A ring pays ring_us and across_us for each of its steps, a tree inside_us and across_log2_us. The
// traffic of a device with a buffer of S bytes (the larger side: what an all_gather returns, what a
// reduce_scatter takes) is S (n-1)/n, twice that for an all_reduce, and S for a permute. The rate
// is `inside_gbps` on one node and min(inside_gbps, per_node * across_gbps) over several; of an
// all_to_all, only what leaves the node goes at across_gbps. A permute is one send: base_us and
// across_us (inside_us if all devices are on one node). `local_gbps` is the rate at which a device
// copies its own part of the buffer; 0: free.
// The fastest protocol for the size is taken, so that a time is monotone and concave in bytes.
//
// An all_reduce may run as a `tree`: log2(nodes) S, at most 6 S, leave a node, which sends them
// with all of its devices, while those inside do an all_reduce among themselves; the slower of the
// two counts. A switch that reduces (`in_switch`) takes S and returns S / per_node to each of them.
//
// Devices that share memory do not send: each does its part of the reading and writing. The traffic
// of one of them is then 2 S (n-1)/n for an all_gather, or 2 S / n if 16 or more devices have one
// result for all, S + S/n for a reduce_scatter and an all_reduce, and 2 S for the others
// (`shared_memory`).
struct CollectiveProtocol {
  std::string name;
  double base_us = 0;
  double ring_us = 0;
  double inside_us = 0;
  double across_us = 0;
  double across_log2_us = 0;
  double inside_gbps = 0;
  double across_gbps = 0;  // of one device's share of the network
  bool shared_memory = false;
  bool tree = false;
  bool in_switch = false;
  double across_base_us = 0;
  double local_gbps = 0;
  bool operator==(const CollectiveProtocol&) const = default;
};

// The network between nodes: the rate of one device's share, and the latency of a hop as
// protocols for large messages see it.
struct Network {
  double gbps = 0;
  double hop_us = 0;
  bool operator==(const Network&) const = default;
};

// The links of one mesh axis by name, in place of the machine's own.
struct AxisLink {
  double latency_us = 0;  // per step of a ring along the axis
  double gbps = 0;
  bool operator==(const AxisLink&) const = default;
};
using AxisLinks = std::array<AxisLink, kNumCollectiveKinds>;

// Seconds of a matmul-like op: launch + max(flops / rate, bytes / bandwidth) + ramp. The ramp,
// ramp_us * (flops / 1e9)^ramp_exponent, is what tiles, waves and prologues cost beside the
// roofline.
struct MatmulRate {
  double tflops = 0;  // reached by large ones
  double ramp_us = 0;
  double ramp_exponent = 0;
  bool operator==(const MatmulRate&) const = default;
};

// How a device with many units runs products inside a compiled step: in tiles, each on one unit, as
// many at a time as there are units. Tiles of 128 x 128 and more run at the full rate, smaller ones
// at `small_share` of it. Of the last, incomplete wave of tiles `last_wave` is paid as if it were
// complete; k is split over several units if that is faster. Rows that are not a multiple of
// `row_bytes` take `odd_rows` times as long, those of four bytes `even_rows` times; if the products
// sum over them, `odd_depth` times.
//
//   132 units: 4096 x 4096 has 512 tiles of 128 x 256, 3.9 waves; 1024 x 64 has 64 tiles of
//   64 x 16, half a wave, unless k is split over several units
struct TileModel {
  int64_t units = 0;               // 0: no tiles; MatmulRate has the ramp instead
  std::map<DType, double> tflops;  // of full tiles on all units
  double launch_us = 5;
  double small_share = 0.48;
  double last_wave = 0.3;
  int64_t row_bytes = 16;
  double odd_rows = 3.3;
  double even_rows = 2.1;
  double odd_depth = 4.6;
  double convolution_share = 0.76;  // of the rate of a product of the same sizes
  double dilated_share = 1;         // the same of one whose operand has gaps
  double depthwise_tflops = 12;     // convolutions in many groups
  double narrow_tflops = 40;        // convolutions of fewer than 8 channels
  double narrow_share = 0.12;       // of the memory's bandwidth, of the same
  bool operator==(const TileModel&) const = default;
};

// Measured times of one class of kernels on elements of one type: microseconds by bytes moved, both
// ascending, the floor of a launch included. Between two points time follows a power of the bytes;
// below the first it is that of the first, beyond the last it goes on at the last one's rate.
//   {{1000, 1}, {4000, 2}}:   10 -> 1;   2000 -> 1.41;   4000 -> 2;   8000 -> 4
struct CurvePoint {
  double bytes = 0;
  double us = 0;
  bool operator==(const CurvePoint&) const = default;
};
using KernelCurve = std::vector<CurvePoint>;
double curve_seconds(const KernelCurve& curve, double bytes);

struct MachineProfile {
  std::string name;
  int64_t devices_per_node = 8;
  // How many devices of a node compute at the rates below at the same time, if fewer than all
  // do: virtual devices share the cores of one host. 0: all of them.
  double concurrent_devices = 0;
  // The same for data that no cache holds, so that devices share the memory. 0: as many as
  // `concurrent_devices`.
  double concurrent_memory = 0;
  double memory_bytes = 0;
  double memory_gbps = 0;  // reached by large copies
  double cache_bytes = 0;  // ops that touch less run at cache_gbps
  double cache_gbps = 0;
  double launch_us = 0;  // floor of any op
  double matmul_launch_us = 0;
  double vector_tflops = 0;  // of ops that are not matmuls, in f32
  // Of the products inside a kernel of attention, in 16 bits: its forward part, and its backward
  // part (0: as forward), for heads of 128; heads of at most 64 reach a share of it. 0: as other
  // products.
  double attention_tflops = 0;
  double attention_backward_tflops = 0;
  double attention_small_heads = 1;
  std::map<DType, MatmulRate> matmul;
  std::map<DType, MatmulRate> convolution;  // empty: as matmuls
  // What the data sheet promises for products without sparsity, 1e12 FLOP/s: only the utilization
  // (MFU) refers to it.
  std::map<DType, double> peak_tflops;
  TileModel tiles;  // of products in a step that `executor` compiled
  ExecutorProfile executor;
  std::array<double, kNumAllKernelClasses> bandwidth_efficiency{1, 1, 1, 1, 1, 1, 1, 1, 1};
  // By KernelClass and dtype, if times were measured: they replace bandwidth and efficiency. A
  // dtype without a curve takes that of one as wide, then that of f32.
  std::array<std::map<DType, KernelCurve>, kNumAllKernelClasses> curves;
  // What an op takes inside a kernel that computes several of them block by block, as loops over
  // what the first cache holds: nanoseconds for an element, by the op's name without its dialect,
  // or the way in which it moves elements ("reduce.rows"), or the name of its class, and by dtype.
  // Empty: not measured.
  std::map<std::string, std::map<DType, double>, std::less<>> loops;
  Network network;  // what the protocols were made for; 0: unknown
  std::array<std::vector<CollectiveProtocol>, kNumCollectiveKinds> collectives;
  std::map<std::string, AxisLinks, std::less<>> axis_links;  // by mesh axis; usually empty

  bool operator==(const MachineProfile&) const = default;
};

// Roofline with efficiency by class, size and dtype and a launch floor; nothing for an op without
// work.
double op_seconds(const OpCost& cost, DType dtype, const MachineProfile& profile);
// Of matrix products or a convolution by the tile model, without what is copied for them.
double product_seconds(const OpCost& cost, DType dtype, const MachineProfile& profile);
// Of an op on so many elements inside a kernel with others, without what enters and leaves the
// kernel: by `loops`, of the op, else of its class, else of elementwise ops.
double loop_seconds(std::string_view op, KernelClass kernel, DType dtype, double elements,
                    const MachineProfile& profile);
// Of reading or writing a value of so many bytes once, in a kernel that computes meanwhile. If
// loops were measured: what an elementwise op on values that no cache holds takes more than its
// loop.
double pass_seconds(double bytes, const MachineProfile& profile);
// A copy of `bytes` on one device: what a local slice costs.
double copy_seconds(double bytes, const MachineProfile& profile);

// The profile that each of `devices` sees when all of them are busy: if they share cores, what
// takes a device 1 ms alone takes it devices / concurrent_devices ms. The same profile if they do
// not.
MachineProfile shared_by(MachineProfile profile, int64_t devices);

// The same machine on another network: rates and latencies of its protocols across nodes are
// scaled. Throws UserError if the profile does not say which network it has.
MachineProfile with_network(MachineProfile profile, const Network& network);

// "default", "a100", "h100", "h200", "b200", "tpu-v4", "tpu-v5p", "tpu-v6e"
const std::vector<std::string>& builtin_profile_names();
// Throws UserError that lists the names.
const MachineProfile& builtin_profile(std::string_view name);
const MachineProfile& default_profile();

std::string to_json(const MachineProfile& profile);
// Fields that are absent keep the value of the profile named by "base" (the default profile if
// there is none); a table of matmul rates replaces the whole table. Throws UserError that names the
// field.
MachineProfile profile_from_json(std::string_view text);
// A built-in name, or the path of a JSON file; with another executor: "h100+inductor".
MachineProfile load_profile(const std::string& name_or_path);

}  // namespace cleave
