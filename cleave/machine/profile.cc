#include "cleave/machine/profile.h"

#include <algorithm>
#include <cmath>

#include "cleave/core/error.h"

namespace cleave {
namespace {

constexpr std::array<std::string_view, kNumCollectiveKinds> kCollectiveNames = {
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute"};
constexpr std::array<std::string_view, kNumKernelClasses> kKernelClassNames = {
    "elementwise", "matmul", "reduction", "softmax", "norm", "transpose"};

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

// What NCCL's tuning model knows about a generation: rates in GB/s.
struct NvidiaLinks {
  double inside;         // reached by large messages inside a node
  double inside_ll;      // by the latency-bound protocol
  double inside_switch;  // of an all_reduce done by the switch; 0 where it cannot
  double all_to_all;
  double network;  // of one device
};

void add_nvidia_collectives(MachineProfile& profile, const NvidiaLinks& links) {
  const double net = links.network;
  for (CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter}) {
    protocols(profile, kind) = {
        {"ring LL", 6.6, 0.6, 0, 2.7, 0, links.inside_ll * 0.5, net * 0.5},
        {"tree LL", 6.8, 0, 0.6, 0, 5, links.inside_ll * 0.5, net * 0.4},
        {"ring LL128", 14, 1.9, 0, 4, 0, links.inside * 0.92, net * 0.92},
        {"ring Simple", 8.4, 3.4, 0, 14, 0, links.inside, net},
    };
  }
  protocols(profile, CollectiveKind::AllReduce) = {
      {"ring LL", 6.6, 1.2, 0, 5.4, 0, links.inside_ll * 0.5, net * 0.5},
      {"tree LL", 6.8, 0, 1.2, 0, 10, links.inside_ll * 0.5, net * 0.4},
      {"ring LL128", 14, 3.8, 0, 8, 0, links.inside * 0.92, net * 0.92},
      {"ring Simple", 8.4, 6.8, 0, 28, 0, links.inside, net},
  };
  if (links.inside_switch > 0)
    protocols(profile, CollectiveKind::AllReduce)
        .push_back({"NVLS tree", 25, 0, 0, 0, 28, links.inside_switch, net * 0.75});
  protocols(profile, CollectiveKind::AllToAll) = {
      {"pairwise", 12, 0, 5.4, 8, 0, links.all_to_all, net},
      {"pairwise LL", 8, 0, 1.2, 2.7, 0, links.inside_ll * 0.5, net * 0.5},
  };
  protocols(profile, CollectiveKind::Permute) = {
      {"send", 8.4, 0, 3.4, 14, 0, links.all_to_all, net},
      {"send LL", 6.6, 0, 0.6, 2.7, 0, links.inside_ll * 0.5, net * 0.5},
  };
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
}

// The shape of the curves is that of an H200; rates are scaled to the device.
MachineProfile nvidia(std::string name, double bf16_tflops, double f32_tflops, double memory_gib,
                      double memory_gbps, double cache_mib, const NvidiaLinks& links) {
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
  add_nvidia_collectives(profile, links);
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
  set_gpu_efficiencies(profile);
  efficiency(profile, KernelClass::Transpose) = 0.5;
  add_torus_collectives(profile, axis_gbps, data_center_gbps);
  return profile;
}

std::vector<MachineProfile> make_builtins() {
  const NvidiaLinks a100{87.7 * 2.6, 87.7, 0, 200, 25};
  const NvidiaLinks h100{345, 141, 467, 380, 50};
  const NvidiaLinks b200{690, 282, 934, 760, 50};
  std::vector<MachineProfile> all;
  all.push_back(nvidia("a100", 235, 16, 80, 1780, 20, a100));
  all.push_back(nvidia("h100", 700, 50, 80, 2960, 28, h100));
  all.push_back(nvidia("h200", 710, 51.5, 141, 4240, 28, h100));
  all.push_back(nvidia("b200", 1600, 65, 180, 6800, 60, b200));
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

double op_seconds(const OpCost& cost, DType dtype, const MachineProfile& profile) {
  if (cost.is_nothing()) return 0;
  const KernelClass kernel_class = cost.kernel;
  const double bytes = cost.bytes_read + cost.bytes_written;
  const double memory = memory_seconds(
      bytes, profile.bandwidth_efficiency[static_cast<size_t>(kernel_class)], profile);
  if (kernel_class != KernelClass::Matmul) {
    const double vector =
        profile.vector_tflops > 0 ? cost.flops / (profile.vector_tflops * 1e12) : 0;
    return profile.launch_us * 1e-6 + std::max(memory, vector);
  }
  auto rate = profile.matmul.find(dtype);
  if (rate == profile.matmul.end()) rate = profile.matmul.find(DType::F32);
  if (rate == profile.matmul.end())
    throw_user("machine profile '{}' has no matmul rate for {} nor for f32", profile.name,
               name(dtype));
  const MatmulRate& matmul = rate->second;
  const double compute = cost.flops / (matmul.tflops * 1e12);
  const double ramp = matmul.ramp_us * 1e-6 * std::pow(cost.flops * 1e-9, matmul.ramp_exponent);
  return profile.matmul_launch_us * 1e-6 + std::max(memory, compute) + ramp;
}

double copy_seconds(double bytes, const MachineProfile& profile) {
  return profile.launch_us * 1e-6 + memory_seconds(2 * bytes, 1, profile);
}

MachineProfile shared_by(MachineProfile profile, int64_t devices) {
  if (profile.concurrent_devices <= 0) return profile;
  const double share =
      static_cast<double>(std::min(devices, profile.devices_per_node)) / profile.concurrent_devices;
  profile.concurrent_devices = 0;
  if (share <= 1) return profile;
  for (double* rate : {&profile.memory_gbps, &profile.cache_gbps, &profile.vector_tflops})
    *rate /= share;
  for (double* time : {&profile.launch_us, &profile.matmul_launch_us}) *time *= share;
  for (auto& [dtype, rate] : profile.matmul) {
    rate.tflops /= share;
    rate.ramp_us *= share;
  }
  for (std::vector<CollectiveProtocol>& protocols : profile.collectives)
    for (CollectiveProtocol& protocol : protocols) {
      for (double* time : {&protocol.base_us, &protocol.ring_us, &protocol.inside_us})
        *time *= share;
      protocol.inside_gbps /= share;
    }
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
  throw_user("unknown machine '{}'; built in are {}; or give the path of a JSON file", name, list);
}

const MachineProfile& default_profile() { return builtins().front(); }

}  // namespace cleave
