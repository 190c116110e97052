#include "cleave/machine/fit.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

// A machine that is known: what it would measure of itself must give it back.
MachineProfile known_host() {
  MachineProfile host = default_profile();
  host.name = "known";
  host.devices_per_node = 1 << 20;
  host.concurrent_devices = 2;
  host.memory_gbps = 8;
  host.cache_bytes = 1e6;
  host.cache_gbps = 24;
  host.launch_us = 0.9;
  host.matmul_launch_us = 1.4;
  host.vector_tflops = 0.01;
  host.matmul = {{DType::F32, {0.11, 2, 0.5}}, {DType::BF16, {0.2, 4, 0.33}}};
  host.concurrent_memory = 1.25;
  host.convolution = {{DType::F32, {0.05, 6, 0.5}}};
  host.bandwidth_efficiency = {1, 1, 0.8, 0.2, 0.4, 0.3, 0.5, 0.6, 1};
  for (auto& protocols : host.collectives) protocols = {{"threads", 12, 3, 0, 0, 0, 4, 4, true}};
  return host;
}

HostTimings timings_of(const MachineProfile& host) {
  HostTimings timings;
  timings.name = host.name;
  timings.cores = 2;
  timings.memory_slowdown = 1.6;
  timings.memory_bytes = host.memory_bytes;
  auto kernel = [&](OpCost cost, DType dtype) {
    // 16-bit floats take twice as long as their bytes say.
    const bool slow = dtype == DType::BF16 && cost.kernel != KernelClass::Matmul;
    timings.kernels.push_back({"", cost, dtype, op_seconds(cost, dtype, host) * (slow ? 2 : 1)});
  };
  for (double bytes = 256; bytes < 1e8; bytes *= 4) {
    kernel({bytes / 8, bytes / 2, bytes / 2}, DType::F32);
    kernel({bytes / 8, bytes / 2, bytes / 2}, DType::BF16);
    kernel({bytes * 5, bytes / 2, bytes / 2, kFunctionClass}, DType::F32);
    kernel({0, bytes / 2, bytes / 2, kIndexingClass}, DType::F32);
    for (KernelClass kernel_class :
         {KernelClass::Reduction, KernelClass::Softmax, KernelClass::Norm, KernelClass::Transpose})
      kernel({0, bytes / 2, bytes / 2, kernel_class}, DType::F32);
  }
  for (DType dtype : {DType::F32, DType::BF16})
    for (double n = 8; n <= 1024; n *= 2)
      kernel({2 * n * n * n, 8 * n * n, 4 * n * n, KernelClass::Matmul}, dtype);
  for (double n = 8; n <= 1024; n *= 2)
    kernel({2 * n * n * n, 8 * n * n, 4 * n * n, kConvolutionClass}, DType::F32);
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind)
    for (int64_t ranks : {2, 4, 8})
      for (double bytes : {1e4, 1e5, 1e6, 1e7}) {
        CollectiveTiming timing{static_cast<CollectiveKind>(kind), ranks, bytes, 1};
        timing.seconds = predicted_seconds(timing, host);
        timings.collectives.push_back(timing);
      }
  return timings;
}

TEST(Fit, FindsAKnownMachine) {
  const MachineProfile host = known_host();
  const HostTimings timings = timings_of(host);
  const MachineProfile fitted = fit_profile(timings);
  EXPECT_EQ(fitted.name, "known");
  EXPECT_NEAR(fitted.launch_us, host.launch_us, 0.1);
  EXPECT_NEAR(fitted.memory_gbps, host.memory_gbps, 0.5);
  EXPECT_NEAR(fitted.cache_gbps, host.cache_gbps, 3);
  EXPECT_NEAR(fitted.vector_tflops, host.vector_tflops, 0.002);
  EXPECT_NEAR(fitted.matmul.at(DType::F32).tflops, 0.11, 0.02);
  EXPECT_NEAR(fitted.convolution.at(DType::F32).tflops, 0.05, 0.01);
  EXPECT_EQ(fitted.concurrent_devices, 2);
  EXPECT_EQ(fitted.concurrent_memory, 1.25);
  for (const ErrorSummary& row : errors_by_class(timings.kernels, fitted))
    EXPECT_LT(row.fitted_error, 0.06) << name(row.kernel) << " " << name(row.dtype);
  EXPECT_LT(median_error(timings.kernels, fitted), 0.05);
  EXPECT_LT(median_error(timings.collectives, fitted), 0.01);
  const CollectiveProtocol& protocol = fitted.collectives[0][0];
  EXPECT_NEAR(protocol.base_us, 12, 0.5);
  EXPECT_NEAR(protocol.ring_us, 3, 0.2);
  EXPECT_NEAR(protocol.inside_gbps, 4, 0.1);
}

// Kernels of several ops, on a machine whose loops are known.
std::vector<FusionTiming> fusions_of(const MachineProfile& host) {
  std::vector<FusionTiming> timings;
  auto add = [&](std::vector<FusionTiming::Loop> loops) {
    FusionTiming timing{"", DType::F32, std::move(loops), {}, 0, false};
    timing.seconds = predicted_seconds(timing, host);
    timings.push_back(timing);
  };
  for (double n : {2048., 16384.}) add({{"elementwise", 7 * n}});
  for (const char* op : {"divide", "exponential", "tanh", "reduce.rows"})
    add({{op, 3 * 8192}, {"elementwise", 3 * 8192}});
  return timings;
}

TEST(Fit, FindsLoopsAndNamesItsCompiler) {
  MachineProfile host = known_host();
  host.executor = builtin_executor("cleave");
  host.executor.launch_us = 0.7;
  host.loops["elementwise"][DType::F32] = 0.06;
  host.loops["divide"][DType::F32] = 0.4;
  host.loops["exponential"][DType::F32] = 0.5;
  host.loops["tanh"][DType::F32] = 0.9;
  host.loops["reduce.rows"][DType::F32] = 0.2;
  HostTimings timings = timings_of(known_host());
  timings.fusions = fusions_of(host);
  const MachineProfile fitted = fit_profile(timings);
  EXPECT_EQ(fitted.executor.name, "cleave");
  EXPECT_NEAR(fitted.executor.launch_us, 0.7, 0.01);
  for (const auto& [op, loops] : host.loops)
    EXPECT_NEAR(fitted.loops.at(op).at(DType::F32) / loops.at(DType::F32), 1, 0.02) << op;
  // Functions that were not measured take the mean of those that were.
  EXPECT_NEAR(fitted.loops.at("function").at(DType::F32), 0.7, 0.01);
  EXPECT_LT(median_error(timings.fusions, fitted), 0.01);
  EXPECT_EQ(fitted.tiles, TileModel());
  EXPECT_TRUE(fitted.peak_tflops.empty());
  EXPECT_EQ(profile_from_json(to_json(fitted)), fitted);
}

TEST(Fit, SurvivesNoiseAndTheFile) {
  HostTimings timings = timings_of(known_host());
  uint32_t state = 1;
  for (KernelTiming& timing : timings.kernels) {
    state = state * 1664525 + 1013904223;
    timing.seconds *= 1 + 0.2 * (state >> 8) / double(1 << 24);
  }
  const MachineProfile fitted = fit_profile(timings);
  EXPECT_LT(median_error(timings.kernels, fitted), 0.12);
  EXPECT_EQ(profile_from_json(to_json(fitted)), fitted);
}

TEST(Fit, ChecksAreNotSeen) {
  HostTimings timings = timings_of(known_host());
  const MachineProfile fitted = fit_profile(timings);
  KernelTiming odd{"odd", {0, 5000, 5000}, DType::F32, 1, true};  // a second
  timings.kernels.push_back(odd);
  EXPECT_EQ(fit_profile(timings), fitted);
  size_t checked = 0;
  for (const ErrorSummary& row : errors_by_class(timings.kernels, fitted)) {
    checked += row.checked;
    EXPECT_TRUE(row.checked == 0 || row.checked_error > 0.99);
  }
  EXPECT_EQ(checked, 1u);
}

TEST(Fit, KeepsWhatWasNotMeasured) {
  HostTimings timings = timings_of(known_host());
  timings.collectives.clear();
  std::erase_if(timings.kernels, [](const KernelTiming& timing) {
    return timing.cost.kernel == KernelClass::Matmul;
  });
  const MachineProfile fitted = fit_profile(timings);
  EXPECT_EQ(fitted.matmul, default_profile().matmul);
  EXPECT_EQ(fitted.collectives, default_profile().collectives);
}

}  // namespace
}  // namespace cleave
