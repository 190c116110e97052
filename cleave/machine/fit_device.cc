#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "cleave/machine/collective.h"
#include "cleave/machine/executor_profile.h"
#include "cleave/machine/measurements.h"

namespace cleave {
namespace {

using Kernels = std::vector<const MeasuredKernel*>;

Kernels of_kind(const DeviceMeasurements& measured, MeasuredKind kind) {
  Kernels found;
  for (const MeasuredKernel& kernel : measured.kernels)
    if (kernel.kind == kind && !kernel.is_check) found.push_back(&kernel);
  return found;
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.size() % 2 ? values[values.size() / 2]
                           : (values[values.size() / 2 - 1] + values[values.size() / 2]) / 2;
}

constexpr double kUsual = 0.1;  // error of a prediction

// How badly a profile predicts; a single wild measurement counts little.
double misfit(const Kernels& kernels, const MachineProfile& profile) {
  double sum = 0;
  for (const MeasuredKernel* kernel : kernels) {
    const double error = std::log(predicted_seconds(*kernel, profile) / kernel->seconds) / kUsual;
    sum += std::log1p(error * error);
  }
  return sum;
}

// A number of the profile that a search may change, within limits. `usual` is by what factor such
// numbers differ between devices, as a logarithm: to be so much further from the number of the base
// counts as much as a measurement that is off by kUsual. 0: only measurements count.
struct Parameter {
  double* value;
  double least, most;
  double usual = 0;
};

// Changes one number after the other, in ever smaller steps, as long as that explains more.
void search(const std::vector<Parameter>& parameters, const Kernels& kernels,
            const MachineProfile& profile) {
  if (kernels.empty()) return;
  std::vector<double> of_base;
  for (const Parameter& parameter : parameters) of_base.push_back(*parameter.value);
  auto badness = [&] {
    double sum = misfit(kernels, profile);
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].usual > 0)
        sum += std::pow(std::log(*parameters[i].value / of_base[i]) / parameters[i].usual, 2);
    return sum;
  };
  double best = badness();
  for (double step : {1.6, 1.25, 1.1, 1.04, 1.015, 1.005, 1.002, 1.0005}) {
    bool better = true;
    for (int sweep = 0; better && sweep < 200; ++sweep) {
      better = false;
      for (const Parameter& parameter : parameters)
        for (double factor : {step, 1 / step}) {
          const double before = *parameter.value;
          *parameter.value = std::clamp(before * factor, parameter.least, parameter.most);
          const double now = badness();
          if (now < best - 1e-12) {
            best = now;
            better = true;
          } else {
            *parameter.value = before;
          }
        }
    }
  }
}

void fit_launch(const DeviceMeasurements& measured, MachineProfile& profile) {
  std::vector<double> each;
  for (const MeasuredKernel* kernel : of_kind(measured, MeasuredKind::Launch))
    each.push_back(kernel->seconds / kernel->count * 1e6);
  if (!each.empty())
    profile.executor.launch_us = middle(std::move(each)) * in_step(profile.executor).launch;
}

// The slope of a line through the times: what a program without arguments takes is not counted.
void fit_argument_time(const DeviceMeasurements& measured, MachineProfile& profile) {
  const Kernels kernels = of_kind(measured, MeasuredKind::Arguments);
  if (kernels.size() < 2) return;
  double x = 0, y = 0;
  for (const MeasuredKernel* kernel : kernels) {
    x += kernel->count / static_cast<double>(kernels.size());
    y += kernel->seconds / static_cast<double>(kernels.size());
  }
  double product = 0, square = 0;
  for (const MeasuredKernel* kernel : kernels) {
    product += (kernel->count - x) * (kernel->seconds - y);
    square += (kernel->count - x) * (kernel->count - x);
  }
  if (square > 0) profile.executor.argument_us = std::max(0.0, product / square * 1e6);
}

double beside_launch(const MeasuredKernel& kernel, const MachineProfile& profile) {
  const double launch = profile.executor.launch_us * 1e-6 / in_step(profile.executor).launch;
  return std::max(kernel.seconds - launch, kernel.seconds * 0.1);
}

void fit_bandwidth(const DeviceMeasurements& measured, MachineProfile& profile) {
  std::vector<double> rates;
  for (const MeasuredKernel* kernel : of_kind(measured, MeasuredKind::Elementwise))
    rates.push_back(kernel->bytes / beside_launch(*kernel, profile) * 1e-9);
  if (!rates.empty()) {
    const double before = profile.memory_gbps;
    profile.memory_gbps = middle(std::move(rates));
    profile.cache_gbps *= profile.memory_gbps / before;
  }
  const InStep step = in_step(profile.executor);
  auto share = [&](MeasuredKind kind, double& of_bandwidth, double there = 1) {
    std::vector<double> shares;
    for (const MeasuredKernel* kernel : of_kind(measured, kind))
      shares.push_back(kernel->bytes / beside_launch(*kernel, profile) /
                       (profile.memory_gbps * 1e9));
    if (!shares.empty()) of_bandwidth = std::clamp(middle(std::move(shares)) * there, 0.01, 1.0);
  };
  share(MeasuredKind::Reduction, profile.executor.reduction_share, step.reduction);
  share(MeasuredKind::Rows, profile.executor.rows_share, step.rows);
  share(MeasuredKind::Transpose, profile.executor.transpose_share);
  share(MeasuredKind::Strided, profile.executor.strided_share, step.strided);
  for (const MeasuredKernel* kernel : of_kind(measured, MeasuredKind::Arithmetic))
    profile.executor.vector_tops = kernel->ops / beside_launch(*kernel, profile) * 1e-12;
}

void fit_products(const DeviceMeasurements& measured, MachineProfile& profile) {
  TileModel& tiles = profile.tiles;
  if (measured.units > 0) tiles.units = measured.units;
  const Kernels products = of_kind(measured, MeasuredKind::Product);
  if (products.empty() || tiles.units == 0) return;
  std::map<DType, double> fastest;
  for (const MeasuredKernel* kernel : products) {
    const OpCost::Products& p = kernel->products;
    const double rate = 2 * p.count * p.m * p.k * p.n / kernel->seconds * 1e-12;
    fastest[kernel->dtype] = std::max(fastest[kernel->dtype], rate);
  }
  std::vector<Parameter> parameters = {{&tiles.launch_us, 0.01, 1e4, 0.5},
                                       {&tiles.small_share, 0.02, 1, 0.5},
                                       {&tiles.last_wave, 0.01, 1, 1},
                                       {&tiles.odd_rows, 1, 20, 1}};
  for (const auto& [dtype, rate] : fastest) {
    tiles.tflops[dtype] = rate;
    parameters.push_back({&tiles.tflops[dtype], rate * 0.5, rate * 3});
  }
  search(parameters, products, profile);
  // Types that the same units compute, if they were not measured.
  if (fastest.contains(DType::BF16) && !fastest.contains(DType::F16))
    tiles.tflops[DType::F16] = tiles.tflops[DType::BF16];
  search({{&tiles.convolution_share, 0.01, 2}}, of_kind(measured, MeasuredKind::Convolution),
         profile);
}

using Timings = std::vector<const CollectiveTiming*>;

Timings of_kind(const DeviceMeasurements& measured, CollectiveKind kind) {
  Timings found;
  for (const CollectiveTiming& timing : measured.collectives)
    if (timing.kind == kind) found.push_back(&timing);
  return found;
}

// A line through the smallest and the largest; across nodes, what the fastest protocol says.
CollectiveProtocol first_line(const Timings& timings,
                              const std::vector<CollectiveProtocol>& protocols) {
  CollectiveProtocol line;
  line.name = "measured";
  for (const CollectiveProtocol& known : protocols)
    if (known.across_gbps > line.across_gbps) {
      line.across_us = known.across_us;
      line.across_log2_us = known.across_log2_us;
      line.across_gbps = known.across_gbps;
    }
  const auto by_bytes = [](const CollectiveTiming* timing) { return timing->bytes; };
  const CollectiveTiming& smallest = **std::ranges::min_element(timings, {}, by_bytes);
  const CollectiveTiming& largest = **std::ranges::max_element(timings, {}, by_bytes);
  line.base_us = smallest.seconds * 1e6;
  line.ring_us = 0.1;
  line.inside_gbps = largest.bytes * collective_traffic(largest.kind, largest.ranks, false) /
                     largest.seconds * 1e-9;
  return line;
}

void improve_line(CollectiveProtocol& line, const Timings& timings, const MachineProfile& profile) {
  auto error = [&] {
    double sum = 0;
    for (const CollectiveTiming* timing : timings)
      sum += std::pow(std::log(predicted_seconds(*timing, profile) / timing->seconds), 2);
    return sum;
  };
  double best = error();
  for (double step : {2.0, 1.4, 1.15, 1.05, 1.02, 1.005})
    for (int sweep = 0; sweep < 50; ++sweep)
      for (double* value : {&line.base_us, &line.ring_us, &line.inside_gbps})
        for (double factor : {step, 1 / step}) {
          const double before = *value;
          *value *= factor;
          if (const double now = error(); now < best - 1e-12)
            best = now;
          else
            *value = before;
        }
}

// One line for every kind. Kinds bound each other, as an all_reduce takes no longer than its two
// halves, so that all of them are improved in turns.
void fit_links(const DeviceMeasurements& measured, MachineProfile& profile) {
  constexpr int kRounds = 3;
  for (int round = 0; round <= kRounds; ++round)
    for (int k = 0; k < kNumCollectiveKinds; ++k) {
      const Timings timings = of_kind(measured, static_cast<CollectiveKind>(k));
      std::vector<CollectiveProtocol>& protocols = profile.collectives[static_cast<size_t>(k)];
      if (timings.empty()) continue;
      if (round == 0)
        protocols = {first_line(timings, protocols)};
      else
        improve_line(protocols[0], timings, profile);
    }
}

}  // namespace

MachineProfile fit_device(const DeviceMeasurements& measured, const MachineProfile& base) {
  MachineProfile profile = base;
  profile.name = measured.device;
  if (measured.memory_bytes > 0) profile.memory_bytes = measured.memory_bytes;
  profile.executor = builtin_executor(measured.executor);
  fit_launch(measured, profile);
  fit_argument_time(measured, profile);
  fit_bandwidth(measured, profile);
  fit_products(measured, profile);
  fit_links(measured, profile);
  return profile;
}

}  // namespace cleave
