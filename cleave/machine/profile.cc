#include "cleave/machine/profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/machine/nvidia.h"

namespace cleave {
namespace {

constexpr std::array<std::string_view, kNumCollectiveKinds> kCollectiveNames = {
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute"};
constexpr std::array<std::string_view, kNumAllKernelClasses> kKernelClassNames = {
    "elementwise", "matmul",   "reduction", "softmax",    "norm",
    "transpose",   "function", "indexing",  "convolution"};

double& efficiency(MachineProfile& profile, KernelClass kernel_class) {
  return profile.bandwidth_efficiency[static_cast<size_t>(kernel_class)];
}

std::vector<CollectiveProtocol>& protocols(MachineProfile& profile, CollectiveKind kind) {
  return profile.collectives[static_cast<size_t>(kind)];
}

// Bytes that fit the cache move at its rate; from one to two times its size the rate changes over.
double memory_seconds(double bytes, double efficiency, const MachineProfile& profile) {
  const double cache = profile.cache_bytes;
  const double missed = cache > 0 ? std::clamp((bytes - cache) / cache, 0.0, 1.0) : 1.0;
  const double fast = profile.cache_gbps > 0 ? profile.cache_gbps : profile.memory_gbps;
  const double per_byte = (1 - missed) / fast + missed / profile.memory_gbps;
  return bytes * per_byte * 1e-9 / efficiency;
}

// What was measured of a dtype, or of one as wide, or of f32, or at all.
template <typename Measured>
const Measured* of_dtype(const std::map<DType, Measured>& table, DType dtype) {
  if (table.empty()) return nullptr;
  auto it = table.find(dtype);
  if (it == table.end())
    it = std::find_if(table.begin(), table.end(), [&](const auto& entry) {
      return byte_size(entry.first) == byte_size(dtype);
    });
  if (it == table.end()) it = table.find(DType::F32);
  return it == table.end() ? &table.begin()->second : &it->second;
}

const MatmulRate& rate_of(const MachineProfile& profile, KernelClass kernel_class, DType dtype) {
  const auto& rates = kernel_class == kConvolutionClass && !profile.convolution.empty()
                          ? profile.convolution
                          : profile.matmul;
  auto rate = rates.find(dtype);
  if (rate == rates.end()) rate = rates.find(DType::F32);
  if (rate == rates.end())
    throw_user("machine profile '{}' has no {} rate for {} nor for f32", profile.name,
               name(kernel_class), name(dtype));
  return rate->second;
}

// Shares of the bandwidth that products reach if the memory limits them.
constexpr double kProductShare = 0.97, kConvolutionShare = 0.78, kDepthwiseShare = 0.83;
constexpr double kManyGroups = 32, kFewChannels = 8;

struct Tile {
  double m, n;
  bool is_full;
};
constexpr Tile kTiles[] = {
    {128, 256, true}, {256, 128, true}, {128, 128, true}, {64, 256, false}, {256, 64, false},
    {64, 128, false}, {128, 64, false}, {64, 64, false},  {32, 64, false},  {64, 32, false},
    {64, 16, false},  {16, 64, false},  {16, 16, false},
};

double tile_rate(const TileModel& tiles, DType dtype) {
  auto rate = tiles.tflops.find(dtype);
  if (rate == tiles.tflops.end()) rate = tiles.tflops.find(DType::F32);
  if (rate == tiles.tflops.end()) rate = tiles.tflops.begin();
  return rate->second * 1e12;
}

// The fastest way to cut the products into tiles.
double even_seconds(const OpCost::Products& p, DType dtype, const MachineProfile& profile) {
  const TileModel& model = profile.tiles;
  const auto units = static_cast<double>(model.units);
  const double rate = tile_rate(model, dtype) * profile.executor.product_share / units;
  constexpr double kStep = 32, kLeastPart = 256, kMostParts = 32;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double count = p.count * std::ceil(p.m / tile.m) * std::ceil(p.n / tile.n);
    const double share = tile.is_full ? 1 : model.small_share;
    for (double parts = 1; parts <= kMostParts; parts *= 2) {
      if (parts > 1 && p.k / parts < kLeastPart) break;
      const double waves = count * parts / units;
      const double paid =
          model.last_wave * std::ceil(waves) + (1 - model.last_wave) * std::max(1.0, waves);
      const double flops = 2 * tile.m * tile.n * std::ceil(p.k / parts / kStep) * kStep;
      // Parts of k are written in f32 and added.
      const double sums = parts > 1 ? p.count * p.m * p.n * 8 / (profile.memory_gbps * 1e9) : 0;
      best = std::min(best, paid * flops / (rate * share) + sums);
    }
  }
  return best;
}

// The same with what it takes that rows are not aligned.
double tiled_seconds(const OpCost::Products& p, DType dtype, const MachineProfile& profile) {
  const TileModel& model = profile.tiles;
  const double best = even_seconds(p, dtype, profile);
  const auto is_multiple = [&](double elements, double of) {
    return std::fmod(elements * byte_size(dtype), of) == 0;
  };
  constexpr double kWord = 4;
  const auto row = static_cast<double>(model.row_bytes);
  if (!is_multiple(p.k, row)) return best * model.odd_depth;
  if (is_multiple(p.n, row)) return best;
  return best * (is_multiple(p.n, kWord) ? model.even_rows : model.odd_rows);
}

// A torus: `gbps` is what a ring along one of its axes reaches with links in both directions.
void add_torus_collectives(MachineProfile& profile, double gbps, double data_center_gbps) {
  const double net = data_center_gbps;
  for (CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
    protocols(profile, kind) = {{"ring", 3, 0.5, 0, 0, 25, gbps, net}};
  protocols(profile, CollectiveKind::AllReduce) = {{"ring", 4, 1, 0, 0, 50, gbps, net}};
  protocols(profile, CollectiveKind::AllToAll) = {{"ring", 3, 0.5, 0, 0, 25, gbps * 0.5, net}};
  protocols(profile, CollectiveKind::Permute) = {{"send", 3, 0, 0.5, 25, 0, gbps * 0.5, net}};
}

void set_gpu_efficiencies(MachineProfile& profile) {
  efficiency(profile, KernelClass::Elementwise) = 1;
  efficiency(profile, KernelClass::Matmul) = 0.95;
  efficiency(profile, KernelClass::Reduction) = 0.92;
  efficiency(profile, KernelClass::Softmax) = 0.32;
  efficiency(profile, KernelClass::Norm) = 0.58;
  efficiency(profile, KernelClass::Transpose) = 0.14;
  efficiency(profile, kFunctionClass) = 0.85;
  efficiency(profile, kIndexingClass) = 0.7;
  efficiency(profile, kConvolutionClass) = 0.95;
}

// The shape of the curves is that of an H200; rates are scaled to the device.
MachineProfile nvidia(std::string name, double bf16_tflops, double f32_tflops, double memory_gib,
                      double memory_gbps, double cache_mib, NvLink links, const Network& network) {
  MachineProfile profile;
  profile.name = std::move(name);
  profile.devices_per_node = 8;
  profile.memory_bytes = memory_gib * 1024 * 1024 * 1024;
  profile.memory_gbps = memory_gbps;
  profile.cache_bytes = cache_mib * 1e6;
  profile.cache_gbps = memory_gbps * 1.85;
  profile.launch_us = 1.18;
  profile.matmul_launch_us = 2.7;
  profile.vector_tflops = f32_tflops;
  const MatmulRate half{bf16_tflops, 0.47, 0.29};
  profile.matmul[DType::BF16] = profile.matmul[DType::F16] = half;
  profile.matmul[DType::F32] = {f32_tflops, 5.8, 0.40};
  profile.matmul[DType::F64] = {f32_tflops, 5.8, 0.40};
  set_gpu_efficiencies(profile);
  profile.network = network;
  set_nccl_collectives(profile, links);
  profile.executor = builtin_executor("xla-gpu");
  return profile;
}

MachineProfile tpu(std::string name, int64_t pod, double bf16_tflops, double memory_gib,
                   double memory_gbps, double axis_gbps, double data_center_gbps) {
  MachineProfile profile;
  profile.name = std::move(name);
  profile.devices_per_node = pod;
  profile.memory_bytes = memory_gib * 1024 * 1024 * 1024;
  profile.memory_gbps = memory_gbps * 0.9;
  profile.launch_us = 1;
  profile.matmul_launch_us = 1;
  profile.vector_tflops = bf16_tflops / 32;
  profile.matmul[DType::BF16] = profile.matmul[DType::F16] = {bf16_tflops * 0.8, 0.47, 0.29};
  profile.matmul[DType::F32] = {bf16_tflops * 0.8 / 6, 0.47, 0.29};
  profile.peak_tflops[DType::BF16] = bf16_tflops;
  set_gpu_efficiencies(profile);
  efficiency(profile, KernelClass::Transpose) = 0.5;
  profile.executor = builtin_executor("xla-tpu");
  add_torus_collectives(profile, axis_gbps, data_center_gbps);
  return profile;
}

// Dense peaks of NVIDIA's data sheets; what f32 and f64 reach without tensor cores and with them.
void set_peaks(MachineProfile& profile, double bf16, double tf32, double f32, double f8) {
  for (DType dtype : {DType::BF16, DType::F16}) profile.peak_tflops[dtype] = bf16;
  profile.peak_tflops[DType::TF32] = tf32;
  profile.peak_tflops[DType::F32] = f32;
  if (f8 > 0)
    for (DType dtype : {DType::F8E4M3FN, DType::F8E5M2}) profile.peak_tflops[dtype] = f8;
}

// Rates of full tiles: those of an H200, which a step's products reach between kernels that wait
// for memory (a product repeated alone gets hot and falls to 86% of it), scaled by the peaks.
void set_tiles(MachineProfile& profile, int64_t units, double bf16_tflops, double tf32_tflops,
               double f32_tflops, double f8_tflops) {
  profile.tiles.units = units;
  profile.tiles.depthwise_tflops = 7;
  profile.tiles.dilated_share = 0.5;
  for (DType dtype : {DType::BF16, DType::F16}) profile.tiles.tflops[dtype] = bf16_tflops;
  profile.tiles.tflops[DType::TF32] = tf32_tflops;
  for (DType dtype : {DType::F32, DType::F64}) profile.tiles.tflops[dtype] = f32_tflops;
  for (DType dtype : {DType::F8E4M3FN, DType::F8E5M2, DType::I8})
    profile.tiles.tflops[dtype] = f8_tflops;
}

void set_attention(MachineProfile& profile, double forward, double backward, double small_heads) {
  profile.attention_tflops = forward;
  profile.attention_backward_tflops = backward;
  profile.attention_small_heads = small_heads;
}

std::vector<MachineProfile> make_builtins() {
  // InfiniBand with 200 Gb/s for each GPU, its latency that of NCCL's tuning model; and EFA with
  // 400 Gb/s, as measured on AWS p5.
  const Network infiniband{25, 30}, efa{50, 66};
  std::vector<MachineProfile> all;
  all.push_back(nvidia("a100", 235, 16, 80, 1780, 20, NvLink::Third, infiniband));
  all.push_back(nvidia("h100", 700, 50, 80, 2960, 28, NvLink::Fourth, efa));
  all.push_back(nvidia("h200", 710, 51.5, 141, 4240, 28, NvLink::Fourth, efa));
  all.push_back(nvidia("b200", 1600, 65, 180, 6800, 60, NvLink::Fifth, efa));
  set_peaks(all[0], 312, 156, 19.5, 0);
  for (size_t i : {1, 2}) set_peaks(all[i], 989, 495, 67, 1979);
  set_peaks(all[3], 2250, 1125, 75, 4500);
  constexpr double kReached = 920.0 / 989, kReachedTf32 = 340.0 / 495;
  set_tiles(all[0], 108, 312 * kReached, 156 * kReachedTf32, 16, 624 * kReached);
  for (size_t i : {1, 2}) set_tiles(all[i], 132, 920, 340, 51.5, 1800);
  // What PyTorch runs: on an A100 FlashAttention-2, which reaches 73% and 63% of the peak by its
  // paper (arXiv 2307.08691); on the others cuDNN, as measured on an H200.
  set_attention(all[0], 228, 197, 0.9);
  for (size_t i : {1, 2}) set_attention(all[i], 670, 560, 0.75);
  set_attention(all[3], 670 * 2250.0 / 989, 560 * 2250.0 / 989, 0.75);
  set_tiles(all[3], 148, 2250 * kReached, 1100 * kReachedTf32, 65, 4500 * kReached);
  all.push_back(tpu("tpu-v4", 4096, 275, 32, 1228, 90, 6));
  all.push_back(tpu("tpu-v5p", 8960, 459, 95, 2765, 180, 12));
  all.push_back(tpu("tpu-v6e", 256, 918, 32, 1640, 180, 12));
  MachineProfile fallback = all[1];
  fallback.name = "default";
  all.insert(all.begin(), fallback);
  return all;
}

const std::vector<MachineProfile>& builtins() {
  static const std::vector<MachineProfile> all = make_builtins();
  return all;
}

}  // namespace

std::string_view name(CollectiveKind kind) { return kCollectiveNames[static_cast<size_t>(kind)]; }

std::optional<CollectiveKind> collective_kind_from_name(std::string_view name) {
  for (size_t i = 0; i < kCollectiveNames.size(); ++i)
    if (kCollectiveNames[i] == name) return static_cast<CollectiveKind>(i);
  return std::nullopt;
}

std::string_view name(KernelClass kernel_class) {
  return kKernelClassNames[static_cast<size_t>(kernel_class)];
}

double curve_seconds(const KernelCurve& curve, double bytes) {
  if (curve.empty()) return 0;
  if (bytes <= curve.front().bytes) return curve.front().us * 1e-6;
  if (bytes >= curve.back().bytes) return curve.back().us * 1e-6 * bytes / curve.back().bytes;
  const auto above =
      std::upper_bound(curve.begin(), curve.end(), bytes,
                       [](double value, const CurvePoint& point) { return value < point.bytes; });
  const CurvePoint &a = *(above - 1), &b = *above;
  const double slope = std::log(b.us / a.us) / std::log(b.bytes / a.bytes);
  return a.us * 1e-6 * std::pow(bytes / a.bytes, slope);
}

double op_seconds(const OpCost& cost, DType dtype, const MachineProfile& profile) {
  if (cost.is_nothing()) return 0;
  const auto kernel_class = static_cast<size_t>(cost.kernel);
  const double bytes = cost.bytes_read + cost.bytes_written;
  const double memory = memory_seconds(bytes, profile.bandwidth_efficiency[kernel_class], profile);
  if (cost.kernel != KernelClass::Matmul && cost.kernel != kConvolutionClass) {
    const double vector =
        profile.vector_tflops > 0 ? cost.flops / (profile.vector_tflops * 1e12) : 0;
    const double launch = profile.launch_us * 1e-6;
    if (const KernelCurve* curve = of_dtype(profile.curves[kernel_class], dtype))
      return std::max(curve_seconds(*curve, bytes), launch + vector);
    return launch + std::max(memory, vector);
  }
  const MatmulRate& rate = rate_of(profile, cost.kernel, dtype);
  const double compute = cost.flops / (rate.tflops * 1e12);
  const double ramp = rate.ramp_us * 1e-6 * std::pow(cost.flops * 1e-9, rate.ramp_exponent);
  return profile.matmul_launch_us * 1e-6 + std::max(memory, compute) + ramp;
}

double product_seconds(const OpCost& cost, DType dtype, const MachineProfile& profile) {
  const TileModel& tiles = profile.tiles;
  const OpCost::Products& p = cost.products;
  if (tiles.units == 0 || p.count == 0) return op_seconds(cost, dtype, profile);
  const bool convolves = cost.kernel == kConvolutionClass;
  const double bytes = cost.bytes_read + cost.bytes_written;
  const double bandwidth = profile.memory_gbps * 1e9;
  const double launch = tiles.launch_us * 1e-6;
  if (!convolves)
    return launch + std::max(tiled_seconds(p, dtype, profile), bytes / (kProductShare * bandwidth));
  if (p.groups >= kManyGroups)
    return launch + std::max(cost.flops / (tiles.depthwise_tflops * 1e12),
                             bytes / (kDepthwiseShare * bandwidth));
  double seconds = std::max(even_seconds(p, dtype, profile) / tiles.convolution_share,
                            bytes / (kConvolutionShare * bandwidth));
  if (p.channels < kFewChannels)
    seconds = std::max({seconds, cost.flops / (tiles.narrow_tflops * 1e12),
                        bytes / (tiles.narrow_share * bandwidth)});
  return launch + seconds;
}

double loop_seconds(std::string_view op, KernelClass kernel, DType dtype, double elements,
                    const MachineProfile& profile) {
  for (std::string_view key : {op, name(kernel), name(KernelClass::Elementwise)})
    if (const auto loop = profile.loops.find(key); loop != profile.loops.end())
      if (const double* ns = of_dtype(loop->second, dtype)) return elements * *ns * 1e-9;
  return 0;
}

double pass_seconds(double bytes, const MachineProfile& profile) {
  constexpr double kBytes = 12;  // that an addition of f32 moves for an element
  const KernelCurve* curve =
      of_dtype(profile.curves[static_cast<size_t>(KernelClass::Elementwise)], DType::F32);
  if (profile.loops.empty() || !curve) return bytes / (profile.memory_gbps * 1e9);
  const double alone = curve->back().us * 1e-6 / curve->back().bytes;
  const double loop =
      loop_seconds("add", KernelClass::Elementwise, DType::F32, 1 / kBytes, profile);
  return bytes * std::max(0.0, alone - loop);
}

double copy_seconds(double bytes, const MachineProfile& profile) {
  const auto& curves = profile.curves[static_cast<size_t>(KernelClass::Elementwise)];
  if (const KernelCurve* curve = of_dtype(curves, DType::F32))
    return curve_seconds(*curve, 2 * bytes);
  return profile.launch_us * 1e-6 + memory_seconds(2 * bytes, 1, profile);
}

MachineProfile shared_by(MachineProfile profile, int64_t devices) {
  if (profile.concurrent_devices <= 0) return profile;
  const auto busy = static_cast<double>(std::min(devices, profile.devices_per_node));
  const double share = std::max(1.0, busy / profile.concurrent_devices);
  const double memory_share =
      std::max(share, profile.concurrent_memory > 0 ? busy / profile.concurrent_memory : share);
  profile.concurrent_devices = profile.concurrent_memory = 0;
  if (memory_share <= 1) return profile;
  profile.memory_gbps /= memory_share;
  for (double* rate : {&profile.cache_gbps, &profile.vector_tflops, &profile.attention_tflops,
                       &profile.attention_backward_tflops})
    *rate /= share;
  profile.executor.vector_tops /= share;
  for (double* time : {&profile.launch_us, &profile.matmul_launch_us, &profile.executor.launch_us})
    *time *= share;
  for (auto& [op, loops] : profile.loops)
    for (auto& [dtype, ns] : loops) ns *= share;
  for (auto* rates : {&profile.matmul, &profile.convolution})
    for (auto& [dtype, rate] : *rates) {
      rate.tflops /= share;
      rate.ramp_us *= share;
    }
  for (auto& curves : profile.curves)
    for (auto& [dtype, curve] : curves)
      for (CurvePoint& point : curve)
        point.us *= point.bytes > profile.cache_bytes ? memory_share : share;
  for (std::vector<CollectiveProtocol>& protocols : profile.collectives)
    for (CollectiveProtocol& protocol : protocols) {
      for (double* time : {&protocol.base_us, &protocol.ring_us, &protocol.inside_us})
        *time *= share;
      for (double* rate : {&protocol.inside_gbps, &protocol.local_gbps}) *rate /= share;
    }
  return profile;
}

MachineProfile with_network(MachineProfile profile, const Network& network) {
  if (profile.network.gbps <= 0 || profile.network.hop_us <= 0)
    throw_user("machine profile '{}' has no network that could be changed; give its collectives",
               profile.name);
  const double rate = network.gbps / profile.network.gbps;
  const double latency = network.hop_us / profile.network.hop_us;
  for (std::vector<CollectiveProtocol>& protocols : profile.collectives)
    for (CollectiveProtocol& protocol : protocols) {
      protocol.across_gbps *= rate;
      for (double* us : {&protocol.across_us, &protocol.across_log2_us, &protocol.across_base_us})
        *us *= latency;
    }
  profile.network = network;
  return profile;
}

const std::vector<std::string>& builtin_profile_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const MachineProfile& profile : builtins()) list.push_back(profile.name);
    return list;
  }();
  return names;
}

const MachineProfile& builtin_profile(std::string_view name) {
  for (const MachineProfile& profile : builtins())
    if (profile.name == name) return profile;
  std::string list;
  for (const std::string& known : builtin_profile_names())
    list += (list.empty() ? "" : ", ") + known;
  throw_user(
      "unknown machine '{}'; built in are {}; \"host\" is this one, once calibrated; or give "
      "the path of a JSON file",
      name, list);
}

const MachineProfile& default_profile() { return builtins().front(); }

}  // namespace cleave
