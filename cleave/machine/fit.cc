#include "cleave/machine/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "cleave/machine/collective.h"

namespace cleave {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double bytes_of(const OpCost& cost) { return cost.bytes_read + cost.bytes_written; }

bool is_matmul(const KernelTiming& timing) { return timing.cost.kernel == KernelClass::Matmul; }

// Bound by arithmetic, not by bytes: functions such as exp.
bool is_function(const KernelTiming& timing) {
  return !is_matmul(timing) && timing.cost.kernel == KernelClass::Elementwise &&
         timing.cost.flops > bytes_of(timing.cost);
}

double log_error(const KernelTiming& timing, const MachineProfile& profile) {
  return std::abs(std::log(op_seconds(timing.cost, timing.dtype, profile) / timing.seconds));
}

double least(const std::vector<KernelTiming>& timings, auto&& belongs, double otherwise) {
  double best = std::numeric_limits<double>::infinity();
  for (const KernelTiming& timing : timings)
    if (belongs(timing)) best = std::min(best, timing.seconds);
  return std::isfinite(best) ? best : otherwise;
}

// Elementwise kernels: the floor, then two rates and the size between them.
void fit_memory(const HostTimings& timings, MachineProfile& profile) {
  std::vector<KernelTiming> plain;
  for (const KernelTiming& timing : timings.kernels)
    if (timing.cost.kernel == KernelClass::Elementwise && !is_function(timing))
      plain.push_back(timing);
  if (plain.empty()) return;
  profile.launch_us = 1e6 * least(
                                plain, [](const auto&) { return true; }, 1e-6);
  std::sort(plain.begin(), plain.end(), [](const KernelTiming& a, const KernelTiming& b) {
    return bytes_of(a.cost) < bytes_of(b.cost);
  });
  const double floor = profile.launch_us * 1e-6;
  auto rate = [&](const KernelTiming& timing) {
    return bytes_of(timing.cost) / std::max(timing.seconds - floor, timing.seconds * 0.1) * 1e-9;
  };
  double best = std::numeric_limits<double>::infinity();
  MachineProfile candidate = profile;
  for (double cache = 32e3; cache < 256e6; cache *= 1.5) {
    candidate.cache_bytes = cache;
    std::vector<double> near, far;
    for (const KernelTiming& timing : plain) {
      if (bytes_of(timing.cost) < cache && timing.seconds > 2 * floor) near.push_back(rate(timing));
      if (bytes_of(timing.cost) > 2 * cache) far.push_back(rate(timing));
    }
    if (near.empty() || far.empty()) continue;
    candidate.memory_gbps = median(far);
    candidate.cache_gbps = std::max(median(near), candidate.memory_gbps);
    double error = 0;
    for (const KernelTiming& timing : plain) error += log_error(timing, candidate);
    if (error >= best) continue;
    best = error;
    profile.memory_gbps = candidate.memory_gbps;
    profile.cache_bytes = candidate.cache_bytes;
    profile.cache_gbps = candidate.cache_gbps;
  }
  if (!std::isfinite(best)) profile.memory_gbps = rate(plain.back());
}

void fit_functions(const HostTimings& timings, MachineProfile& profile) {
  std::vector<double> rates;
  for (const KernelTiming& timing : timings.kernels)
    if (is_function(timing) && timing.seconds > 3e-6 * profile.launch_us)
      rates.push_back(timing.cost.flops / (timing.seconds - profile.launch_us * 1e-6) * 1e-12);
  if (!rates.empty()) profile.vector_tflops = median(rates);
}

void fit_classes(const HostTimings& timings, MachineProfile& profile) {
  for (KernelClass kernel_class :
       {KernelClass::Reduction, KernelClass::Softmax, KernelClass::Norm, KernelClass::Transpose}) {
    double& efficiency = profile.bandwidth_efficiency[static_cast<size_t>(kernel_class)];
    double best = std::numeric_limits<double>::infinity(), found = 1;
    for (double trial = 2; trial > 0.002; trial *= 0.95) {
      efficiency = trial;
      double error = 0;
      int count = 0;
      for (const KernelTiming& timing : timings.kernels)
        if (timing.cost.kernel == kernel_class) {
          error += log_error(timing, profile);
          ++count;
        }
      if (count == 0) break;
      if (error < best) {
        best = error;
        found = trial;
      }
    }
    efficiency = found;
  }
}

void fit_matmuls(const HostTimings& timings, MachineProfile& profile) {
  profile.bandwidth_efficiency[static_cast<size_t>(KernelClass::Matmul)] = 1;
  profile.matmul_launch_us =
      1e6 * least(
                timings.kernels, [](const auto& t) { return is_matmul(t); }, 1e-6);
  const std::map<DType, MatmulRate> before = profile.matmul;
  profile.matmul.clear();
  for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
    std::vector<const KernelTiming*> own;
    for (const KernelTiming& timing : timings.kernels)
      if (is_matmul(timing) && timing.dtype == dtype) own.push_back(&timing);
    if (own.empty()) continue;
    double fastest = 0;
    for (const KernelTiming* timing : own)
      fastest = std::max(fastest, timing->cost.flops / timing->seconds * 1e-12);
    MatmulRate& rate = profile.matmul[dtype];
    MatmulRate found{fastest, 0, 0};
    double best = std::numeric_limits<double>::infinity();
    for (double peak : {1.0, 1.1, 1.25})
      for (double exponent : {0.0, 0.25, 0.33, 0.5, 0.67})
        for (double ramp = 0.1; ramp < 1e5; ramp *= 1.25) {
          rate = {fastest * peak, ramp, exponent};
          double error = 0;
          for (const KernelTiming* timing : own) error += log_error(*timing, profile);
          if (error < best) {
            best = error;
            found = rate;
          }
        }
    rate = found;
  }
  if (profile.matmul.empty()) profile.matmul = before;
}

// Least squares of relative errors with no negative coefficient, by coordinate descent.
template <size_t N>
std::array<double, N> fit_line(const std::vector<std::array<double, N>>& rows,
                               const std::vector<double>& values) {
  std::array<double, N> x{};
  for (int sweep = 0; sweep < 2000; ++sweep)
    for (size_t k = 0; k < N; ++k) {
      double numerator = 0, denominator = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        double rest = values[i];
        for (size_t j = 0; j < N; ++j)
          if (j != k) rest -= rows[i][j] * x[j];
        const double weight = 1 / (values[i] * values[i]);
        numerator += weight * rows[i][k] * rest;
        denominator += weight * rows[i][k] * rows[i][k];
      }
      x[k] = denominator > 0 ? std::max(0.0, numerator / denominator) : 0;
    }
  return x;
}

void fit_collectives(const HostTimings& timings, MachineProfile& profile) {
  for (int k = 0; k < kNumCollectiveKinds; ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    std::vector<std::array<double, 3>> rows;
    std::vector<double> values;
    for (const CollectiveTiming& timing : timings.collectives) {
      if (timing.kind != kind) continue;
      const auto n = static_cast<double>(timing.ranks);
      const double share = std::max(1.0, n / profile.concurrent_devices);
      double traffic = timing.bytes * (n - 1) / n;
      if (kind == CollectiveKind::AllReduce) traffic *= 2;
      if (kind == CollectiveKind::Permute) traffic = timing.bytes;
      rows.push_back({1, kind == CollectiveKind::Permute ? 0 : n - 1, traffic});
      values.push_back(timing.seconds / share);
    }
    if (rows.empty()) continue;
    const auto [base, ring, per_byte] = fit_line<3>(rows, values);
    CollectiveProtocol protocol;
    protocol.name = "threads";
    protocol.base_us = base * 1e6;
    protocol.ring_us = ring * 1e6;
    protocol.inside_gbps = per_byte > 0 ? 1e-9 / per_byte : 1e3;
    protocol.across_gbps = protocol.inside_gbps;
    profile.collectives[static_cast<size_t>(k)] = {protocol};
  }
}

}  // namespace

MachineProfile fit_profile(const HostTimings& timings) {
  MachineProfile profile = default_profile();
  profile.name = timings.name;
  profile.devices_per_node = 1 << 20;  // virtual devices are all on this host
  profile.concurrent_devices = static_cast<double>(timings.cores) / std::max(1.0, timings.slowdown);
  profile.concurrent_devices = std::max(1.0, profile.concurrent_devices);
  profile.memory_bytes = timings.memory_bytes;
  fit_memory(timings, profile);
  fit_functions(timings, profile);
  fit_classes(timings, profile);
  fit_matmuls(timings, profile);
  fit_collectives(timings, profile);
  return profile;
}

double predicted_seconds(const CollectiveTiming& timing, const MachineProfile& profile) {
  return collective_cost(timing.kind, {timing.ranks, timing.ranks, 1},
                         shared_by(profile, timing.ranks))
      .seconds(timing.bytes);
}

double median_error(std::span<const KernelTiming> timings, const MachineProfile& profile) {
  std::vector<double> errors;
  for (const KernelTiming& timing : timings)
    errors.push_back(std::abs(op_seconds(timing.cost, timing.dtype, profile) / timing.seconds - 1));
  return median(std::move(errors));
}

double median_error(std::span<const CollectiveTiming> timings, const MachineProfile& profile) {
  std::vector<double> errors;
  for (const CollectiveTiming& timing : timings)
    errors.push_back(std::abs(predicted_seconds(timing, profile) / timing.seconds - 1));
  return median(std::move(errors));
}

}  // namespace cleave
