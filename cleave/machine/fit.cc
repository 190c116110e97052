#include "cleave/machine/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
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

bool is_rated(KernelClass kernel) {
  return kernel == KernelClass::Matmul || kernel == kConvolutionClass;
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
void fit_memory(const std::vector<KernelTiming>& timings, MachineProfile& profile) {
  std::vector<KernelTiming> plain;
  for (const KernelTiming& timing : timings)
    if (timing.cost.kernel == KernelClass::Elementwise && timing.dtype == DType::F32)
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

// The most arithmetic that a function was seen to do; what is slower is in the curves.
void fit_functions(const std::vector<KernelTiming>& timings, MachineProfile& profile) {
  double most = 0;
  for (const KernelTiming& timing : timings)
    if (timing.cost.kernel == kFunctionClass && timing.seconds > 3e-6 * profile.launch_us)
      most = std::max(most, timing.cost.flops / timing.seconds * 1e-12);
  if (most > 0) profile.vector_tflops = most;
}

// Timings that move about as much, by the mean of their rates.
KernelCurve fit_curve(const std::vector<const KernelTiming*>& timings) {
  struct Sum {
    double log_bytes = 0, log_rate = 0, count = 0;
  };
  std::map<long, Sum> buckets;
  for (const KernelTiming* timing : timings) {
    const double bytes = bytes_of(timing->cost);
    if (bytes <= 0 || timing->seconds <= 0) continue;
    Sum& sum = buckets[std::lround(std::log2(bytes))];
    sum.log_bytes += std::log(bytes);
    sum.log_rate += std::log(timing->seconds / bytes);
    sum.count += 1;
  }
  KernelCurve curve;
  for (const auto& [bucket, sum] : buckets) {
    const double bytes = std::exp(sum.log_bytes / sum.count);
    const double us = 1e6 * bytes * std::exp(sum.log_rate / sum.count);
    curve.push_back({bytes, curve.empty() ? us : std::max(us, curve.back().us)});
  }
  return curve;
}

void fit_curves(const std::vector<KernelTiming>& timings, MachineProfile& profile) {
  profile.curves = {};
  std::array<std::map<DType, std::vector<const KernelTiming*>>, kNumAllKernelClasses> by_class;
  for (const KernelTiming& timing : timings)
    if (!is_rated(timing.cost.kernel))
      by_class[static_cast<size_t>(timing.cost.kernel)][timing.dtype].push_back(&timing);
  for (size_t c = 0; c < by_class.size(); ++c)
    for (const auto& [dtype, list] : by_class[c])
      if (KernelCurve curve = fit_curve(list); curve.size() > 1)
        profile.curves[c][dtype] = std::move(curve);
}

MatmulRate fit_rate(const std::vector<const KernelTiming*>& timings, MachineProfile profile,
                    std::map<DType, MatmulRate> MachineProfile::*table) {
  const DType dtype = timings[0]->dtype;
  double fastest = 0;
  for (const KernelTiming* timing : timings)
    fastest = std::max(fastest, timing->cost.flops / timing->seconds * 1e-12);
  MatmulRate& rate = (profile.*table)[dtype];
  MatmulRate found{fastest, 0, 0};
  double best = std::numeric_limits<double>::infinity();
  for (double peak : {1.0, 1.1, 1.25})
    for (double exponent : {0.0, 0.25, 0.33, 0.5, 0.67, 0.8})
      for (double ramp = 0.1; ramp < 1e5; ramp *= 1.25) {
        rate = {fastest * peak, ramp, exponent};
        double error = 0;
        for (const KernelTiming* timing : timings) error += log_error(*timing, profile);
        if (error < best) {
          best = error;
          found = rate;
        }
      }
  return found;
}

void fit_rates(const std::vector<KernelTiming>& timings, KernelClass kernel,
               std::map<DType, MatmulRate> MachineProfile::*table, MachineProfile& profile) {
  std::map<DType, std::vector<const KernelTiming*>> by_dtype;
  for (const KernelTiming& timing : timings)
    if (timing.cost.kernel == kernel) by_dtype[timing.dtype].push_back(&timing);
  if (by_dtype.empty()) return;
  (profile.*table).clear();
  std::map<DType, MatmulRate> rates;
  for (const auto& [dtype, list] : by_dtype) rates[dtype] = fit_rate(list, profile, table);
  profile.*table = std::move(rates);
}

void fit_matmuls(const std::vector<KernelTiming>& timings, MachineProfile& profile) {
  profile.matmul_launch_us =
      1e6 * least(
                timings, [](const auto& t) { return t.cost.kernel == KernelClass::Matmul; }, 1e-6);
  fit_rates(timings, KernelClass::Matmul, &MachineProfile::matmul, profile);
  fit_rates(timings, kConvolutionClass, &MachineProfile::convolution, profile);
}

// Least squares of relative errors with no negative coefficient, by coordinate descent. Values are
// not exact to less than `noise`.
std::vector<double> fit_line(const std::vector<std::vector<double>>& rows,
                             const std::vector<double>& values, double noise = 0) {
  const size_t n = rows[0].size();
  std::vector<double> x(n), rest = values;
  for (int sweep = 0; sweep < 4000; ++sweep)
    for (size_t k = 0; k < n; ++k) {
      double numerator = 0, denominator = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        const double weight = rows[i][k] / std::pow(values[i] + noise, 2);
        numerator += weight * (rest[i] + rows[i][k] * x[k]);
        denominator += weight * rows[i][k];
      }
      const double better = denominator > 0 ? std::max(0.0, numerator / denominator) : 0;
      for (size_t i = 0; i < rows.size(); ++i) rest[i] += rows[i][k] * (x[k] - better);
      x[k] = better;
    }
  return x;
}

// Functions that were not measured take what those that were do on the average.
void fill_functions(MachineProfile& profile) {
  std::map<DType, std::vector<double>> of_functions;
  for (const char* op : {"exponential", "tanh", "logistic", "log"})
    if (const auto loop = profile.loops.find(op); loop != profile.loops.end())
      for (const auto& [dtype, ns] : loop->second) of_functions[dtype].push_back(ns);
  for (const auto& [dtype, each] : of_functions)
    profile.loops[std::string(name(kFunctionClass))][dtype] =
        std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size());
}

// Of kernels whose values the cache holds, so that loops are all that they do, and what it takes to
// begin one.
void fit_loops(const std::vector<FusionTiming>& timings, MachineProfile& profile) {
  profile.loops.clear();
  std::vector<double> begins;
  std::map<DType, std::vector<const FusionTiming*>> by_dtype;
  for (const FusionTiming& timing : timings)
    if (!timing.is_check) by_dtype[timing.dtype].push_back(&timing);
  for (const auto& [dtype, list] : by_dtype) {
    std::map<std::string, size_t> columns;
    for (const FusionTiming* timing : list)
      for (const FusionTiming::Loop& loop : timing->loops)
        columns.emplace(loop.op, columns.size() + 1);  // the first one is what it takes to begin
    std::vector<std::vector<double>> rows;
    std::vector<double> values;
    for (const FusionTiming* timing : list) {
      std::vector<double> row(columns.size() + 1);
      row[0] = 1;
      for (const FusionTiming::Loop& loop : timing->loops)
        row[columns.at(loop.op)] += loop.elements;
      rows.push_back(std::move(row));
      values.push_back(timing->seconds);
    }
    const std::vector<double> seconds = fit_line(rows, values);
    begins.push_back(seconds[0]);
    for (const auto& [op, column] : columns) profile.loops[op][dtype] = seconds[column] * 1e9;
  }
  fill_functions(profile);
  profile.executor.launch_us = begins.empty() ? profile.launch_us : median(begins) * 1e6;
}

void fit_collectives(const HostTimings& timings, MachineProfile& profile) {
  for (int k = 0; k < kNumCollectiveKinds; ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    std::vector<std::vector<double>> rows;
    std::vector<double> values;
    for (const CollectiveTiming& timing : timings.collectives) {
      if (timing.kind != kind) continue;
      const auto n = static_cast<double>(timing.ranks);
      const double share = std::max(1.0, n / profile.concurrent_devices);
      const double traffic = timing.bytes * collective_traffic(kind, timing.ranks, true);
      rows.push_back({1, kind == CollectiveKind::Permute ? 0 : n - 1, traffic});
      values.push_back(timing.seconds / share);
    }
    if (rows.empty()) continue;
    constexpr double kNoise = 1e-6;
    const std::vector<double> line = fit_line(rows, values, kNoise);
    const double base = line[0], ring = line[1], per_byte = line[2];
    CollectiveProtocol protocol;
    protocol.name = "threads";
    protocol.base_us = base * 1e6;
    protocol.ring_us = ring * 1e6;
    protocol.inside_gbps = per_byte > 0 ? 1e-9 / per_byte : 1e3;
    protocol.across_gbps = protocol.inside_gbps;
    protocol.shared_memory = true;
    profile.collectives[static_cast<size_t>(k)] = {protocol};
  }
}

}  // namespace

MachineProfile fit_profile(const HostTimings& timings) {
  MachineProfile profile = default_profile();
  profile.name = timings.name;
  profile.devices_per_node = 1 << 20;  // virtual devices are all on this host
  profile.network = {};
  const auto cores = static_cast<double>(timings.cores);
  profile.concurrent_devices = std::max(1.0, cores / std::max(1.0, timings.slowdown));
  profile.concurrent_memory =
      std::clamp(cores / std::max(1.0, timings.memory_slowdown), 1.0, profile.concurrent_devices);
  profile.memory_bytes = timings.memory_bytes;
  profile.bandwidth_efficiency.fill(1);
  std::vector<KernelTiming> used;
  for (const KernelTiming& timing : timings.kernels)
    if (!timing.is_check) used.push_back(timing);
  fit_memory(used, profile);
  fit_functions(used, profile);
  fit_curves(used, profile);
  fit_matmuls(used, profile);
  profile.executor = builtin_executor("cleave");
  fit_loops(timings.fusions, profile);
  profile.tiles = {};
  profile.peak_tflops.clear();
  profile.attention_tflops = 0;
  fit_collectives(timings, profile);
  return profile;
}

double predicted_seconds(const CollectiveTiming& timing, const MachineProfile& profile) {
  return collective_cost(timing.kind, {timing.ranks, timing.ranks, 1},
                         shared_by(profile, timing.ranks))
      .seconds(timing.bytes);
}

double predicted_seconds(const FusionTiming& timing, const MachineProfile& profile) {
  double seconds = profile.executor.launch_us * 1e-6;
  for (const FusionTiming::Loop& loop : timing.loops)
    seconds +=
        loop_seconds(loop.op, KernelClass::Elementwise, timing.dtype, loop.elements, profile);
  // What the cache holds from the last run is not read from memory again.
  double bytes = 0;
  for (double each : timing.bytes) bytes += each;
  const double missed =
      profile.cache_bytes > 0 ? std::clamp(bytes / profile.cache_bytes - 1, 0.0, 1.0) : 1.0;
  return seconds + missed * pass_seconds(bytes, profile);
}

double median_error(std::span<const KernelTiming> timings, const MachineProfile& profile) {
  std::vector<double> errors;
  for (const KernelTiming& timing : timings)
    errors.push_back(std::abs(op_seconds(timing.cost, timing.dtype, profile) / timing.seconds - 1));
  return median(std::move(errors));
}

double median_error(std::span<const FusionTiming> timings, const MachineProfile& profile) {
  std::vector<double> errors;
  for (const FusionTiming& timing : timings)
    errors.push_back(std::abs(predicted_seconds(timing, profile) / timing.seconds - 1));
  return median(std::move(errors));
}

double median_error(std::span<const CollectiveTiming> timings, const MachineProfile& profile) {
  std::vector<double> errors;
  for (const CollectiveTiming& timing : timings)
    errors.push_back(std::abs(predicted_seconds(timing, profile) / timing.seconds - 1));
  return median(std::move(errors));
}

std::vector<ErrorSummary> errors_by_class(std::span<const KernelTiming> timings,
                                          const MachineProfile& profile) {
  std::map<std::pair<KernelClass, DType>, std::array<std::vector<KernelTiming>, 2>> groups;
  for (const KernelTiming& timing : timings)
    groups[{timing.cost.kernel, timing.dtype}][timing.is_check].push_back(timing);
  std::vector<ErrorSummary> result;
  for (const auto& [key, group] : groups)
    result.push_back({key.first, key.second, group[0].size(), group[1].size(),
                      median_error(group[0], profile), median_error(group[1], profile)});
  return result;
}

}  // namespace cleave
