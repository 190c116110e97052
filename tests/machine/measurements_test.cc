#include "cleave/machine/measurements.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;

// A machine that is known: what it would measure of itself must give it back.
MachineProfile known_device() {
  MachineProfile device = builtin_profile("h200");
  device.memory_gbps = 3100;
  device.tiles.units = 120;
  device.tiles.tflops[DType::BF16] = 640;
  device.tiles.tflops[DType::TF32] = 250;
  device.tiles.launch_us = 3.1;
  device.tiles.small_share = 0.6;
  device.tiles.last_wave = 0.45;
  device.tiles.odd_rows = 2.2;
  device.tiles.convolution_share = 0.7;
  device.executor.launch_us = 2.9;
  device.executor.argument_us = 4.5;
  device.executor.reduction_share = 0.71;
  device.executor.rows_share = 0.64;
  device.executor.transpose_share = 0.55;
  device.executor.strided_share = 0.17;
  device.executor.vector_tops = 9;
  for (auto& protocols : device.collectives) {
    CollectiveProtocol line;
    line.name = "line";
    line.base_us = 11;
    line.ring_us = 2.5;
    line.inside_gbps = 210;
    line.across_gbps = 40;
    protocols = {line};
  }
  return device;
}

DeviceMeasurements measured_on(const MachineProfile& device) {
  DeviceMeasurements measured;
  measured.device = "known";
  measured.framework = "jax";
  measured.executor = "xla-gpu";
  measured.units = device.tiles.units;
  auto add = [&](MeasuredKernel kernel) {
    kernel.seconds = predicted_seconds(kernel, device);
    measured.kernels.push_back(kernel);
  };
  auto product = [&](DType dtype, double count, double m, double k, double n) {
    MeasuredKernel kernel{MeasuredKind::Product, dtype};
    kernel.products = {.count = count, .m = m, .k = k, .n = n};
    add(kernel);
  };
  for (DType dtype : {DType::BF16, DType::TF32})
    for (double m : {64., 256., 1024., 4096., 8192.})
      for (double n : {64., 512., 1536., 4096.}) product(dtype, 1, m, 2048, n);
  product(DType::BF16, 96, 1024, 64, 1024);
  product(DType::BF16, 1, 4096, 4096, 4095);
  MeasuredKernel convolution{MeasuredKind::Convolution, DType::BF16};
  convolution.products = {.count = 1, .m = 64 * 28 * 28, .k = 9 * 256, .n = 256, .channels = 256};
  convolution.bytes = 5e7;
  add(convolution);
  for (MeasuredKind kind : {MeasuredKind::Elementwise, MeasuredKind::Reduction, MeasuredKind::Rows,
                            MeasuredKind::Transpose, MeasuredKind::Strided})
    for (double bytes : {5e7, 2e8, 8e8}) add({kind, DType::F32, {}, bytes});
  add({MeasuredKind::Arithmetic, DType::F32, {}, 0, 4e9});
  add({MeasuredKind::Launch, DType::F32, {}, 0, 0, 64});
  // The host also takes a while for a program without arguments.
  for (double count : {8., 128., 512.}) {
    MeasuredKernel kernel{MeasuredKind::Arguments, DType::F32, {}, 0, 0, count};
    add(kernel);
    measured.kernels.back().seconds += 30e-6;
  }
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind)
    for (int64_t ranks : {2, 8})
      for (double bytes : {1e5, 1e6, 1e7, 1e8}) {
        CollectiveTiming timing{static_cast<CollectiveKind>(kind), ranks, bytes, 1};
        timing.seconds = predicted_seconds(timing, device);
        measured.collectives.push_back(timing);
      }
  return measured;
}

TEST(Measurements, GiveAKnownDeviceBack) {
  const MachineProfile device = known_device();
  const MachineProfile fitted = fit_device(measured_on(device), builtin_profile("h200"));
  auto close = [](double found, double known, double within) {
    EXPECT_NEAR(found / known, 1, within);
  };
  close(fitted.memory_gbps, device.memory_gbps, 1e-6);
  const ExecutorProfile &now = fitted.executor, &was = device.executor;
  close(now.launch_us, was.launch_us, 1e-6);
  close(now.argument_us, was.argument_us, 1e-6);
  close(now.reduction_share, was.reduction_share, 1e-6);
  close(now.rows_share, was.rows_share, 1e-6);
  close(now.transpose_share, was.transpose_share, 1e-6);
  close(now.strided_share, was.strided_share, 1e-6);
  close(now.vector_tops, was.vector_tops, 1e-6);
  const TileModel &tiles = fitted.tiles, &known = device.tiles;
  EXPECT_EQ(tiles.units, known.units);
  close(tiles.tflops.at(DType::BF16), 640, 0.02);
  close(tiles.tflops.at(DType::F16), 640, 0.02);
  close(tiles.tflops.at(DType::TF32), 250, 0.02);
  close(tiles.launch_us, known.launch_us, 0.05);
  close(tiles.small_share, known.small_share, 0.05);
  close(tiles.last_wave, known.last_wave, 0.1);
  close(tiles.odd_rows, known.odd_rows, 0.05);
  close(tiles.convolution_share, known.convolution_share, 0.05);
  for (const auto& protocols : fitted.collectives) {
    ASSERT_EQ(protocols.size(), 1u);
    close(protocols[0].inside_gbps, 210, 0.02);
  }
  for (const FitErrors& row : fit_errors(measured_on(device), fitted))
    EXPECT_LT(row.fitted.worst, 0.03) << row.what;
}

TEST(Measurements, WhatWasNotMeasuredStays) {
  DeviceMeasurements measured = measured_on(known_device());
  std::erase_if(measured.kernels,
                [](const MeasuredKernel& k) { return k.kind != MeasuredKind::Elementwise; });
  measured.collectives.clear();
  measured.units = 0;
  const MachineProfile base = builtin_profile("h200"), fitted = fit_device(measured, base);
  EXPECT_EQ(fitted.tiles, base.tiles);
  EXPECT_EQ(fitted.collectives, base.collectives);
  EXPECT_EQ(fitted.executor, base.executor);
  EXPECT_NE(fitted.memory_gbps, base.memory_gbps);
  EXPECT_EQ(fitted.peak_tflops, base.peak_tflops);
}

// A profile is about steps: its launch is later than that of a chain, its shares are lower.
TEST(Measurements, KernelsAloneAreFasterThanInSteps) {
  const MachineProfile h200 = builtin_profile("h200");
  const InStep step = in_step(h200.executor);
  const MeasuredKernel rows{MeasuredKind::Rows, DType::F32, {}, 1e9};
  const double launch = h200.executor.launch_us * 1e-6 / step.launch;
  EXPECT_NEAR(predicted_seconds(rows, h200),
              launch + 1e9 * step.rows / (h200.memory_gbps * 1e9 * h200.executor.rows_share), 1e-9);
  EXPECT_LT(step.rows, 1);
  EXPECT_EQ(in_step(builtin_executor("inductor")).rows, 1);  // nothing is known of it
  // A share is one of a file that can be read again, whatever was measured.
  DeviceMeasurements odd = measured_on(known_device());
  for (MeasuredKernel& kernel : odd.kernels)
    if (kernel.kind == MeasuredKind::Transpose) kernel.seconds /= 50;
  const MachineProfile fitted = fit_device(odd, h200);
  EXPECT_EQ(profile_from_json(to_json(fitted)).executor, fitted.executor);
}

TEST(Measurements, ChecksAreNotFitted) {
  DeviceMeasurements measured = measured_on(known_device());
  MeasuredKernel wild = measured.kernels.back();
  wild = {MeasuredKind::Elementwise, DType::F32, {}, 1e8, 0, 0, 1.0, true};
  measured.kernels.push_back(wild);
  const MachineProfile fitted = fit_device(measured, builtin_profile("h200"));
  EXPECT_NEAR(fitted.memory_gbps, 3100, 1e-3);
  for (const FitErrors& row : fit_errors(measured, fitted))
    if (row.what == "elementwise f32") {
      EXPECT_EQ(row.checked.count, 1u);
      EXPECT_GT(row.checked.worst, 0.9);
    }
}

std::string file(const std::string& kernels, const std::string& collectives = "") {
  return fmt::format(
      R"({{"format": "cleave-measurements", "version": 1, "framework": "jax", "device": "NVIDIA H200",
"executor": "xla-gpu", "units": 132, "kernels": [{}], "collectives": [{}]}})",
      kernels, collectives);
}

TEST(Measurements, AreRead) {
  const DeviceMeasurements measured = measurements_from_json(
      file(R"({"kind": "product", "dtype": "bf16", "count": 2, "m": 8, "k": 4, "n": 16, "us": 3.5},
{"kind": "rows", "dtype": "f32", "bytes": 1024, "us": 2, "check": true})",
           R"({"kind": "all_reduce", "ranks": 8, "bytes": 4096, "us": 20})"));
  EXPECT_EQ(measured.units, 132);
  ASSERT_EQ(measured.kernels.size(), 2u);
  EXPECT_EQ(measured.kernels[0].products.k, 4);
  EXPECT_NEAR(measured.kernels[0].seconds, 3.5e-6, 1e-15);
  EXPECT_TRUE(measured.kernels[1].is_check);
  ASSERT_EQ(measured.collectives.size(), 1u);
  EXPECT_EQ(measured.collectives[0].ranks, 8);
}

TEST(Measurements, WrongFilesAreSaidInOneLine) {
  auto why = [](const std::string& text) {
    const std::string error = error_of([&] { measurements_from_json(text); });
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    return error;
  };
  EXPECT_THAT(why(""), HasSubstr("measurements: the file is empty"));
  EXPECT_THAT(why(" \n"), HasSubstr("measurements: the file is empty"));
  const std::string whole = file(R"({"kind": "rows", "dtype": "f32", "bytes": 1024, "us": 2})");
  for (size_t length = 1; length + 1 < whole.size(); length += 7)
    EXPECT_THAT(why(whole.substr(0, length)), HasSubstr("the file ends before it is complete"))
        << length;
  EXPECT_THAT(why("{\"format\":\nhello"), HasSubstr("measurements: line 2 is not JSON"));
  EXPECT_THAT(why(R"({"format": "cleave-measurements", "version": 1, "framework": "jax",
"device": "x", "executor": "xla", "kernels": [], "collectives": []})"),
              HasSubstr("there is no executor 'xla'; there are xla-gpu"));
  EXPECT_THAT(why("{}"), HasSubstr("the field format is not \"cleave-measurements\""));
  EXPECT_THAT(why("[1]"), HasSubstr("the field format is not"));
  EXPECT_THAT(why(R"({"format": "cleave-measurements", "version": 2})"),
              HasSubstr("the version is 2; this program reads version 1"));
  EXPECT_THAT(why(file("")), HasSubstr("there are no kernels in the file"));
  EXPECT_THAT(why(file("7")), HasSubstr("kernels[0] must be an object"));
  EXPECT_THAT(why(file(R"({"kind": "product", "dtype": "bf16", "m": 8, "k": 4, "us": 3})")),
              HasSubstr("kernels[0] has no \"n\""));
  EXPECT_THAT(why(file(R"({"kind": "prodct", "dtype": "bf16", "us": 3})")),
              HasSubstr("kernels[0].kind: unknown kind 'prodct'"));
  EXPECT_THAT(why(file(R"({"kind": "rows", "dtype": "bf17", "us": 3})")),
              HasSubstr("kernels[0].dtype: unknown type 'bf17'"));
  for (const char* us : {"-3", "0", "\"3\"", "null", "1e300"})
    EXPECT_THAT(why(file(fmt::format(R"({{"kind": "rows", "dtype": "f32", "us": {}}})", us))),
                HasSubstr("kernels[0].us must be a number above 0"));
  const std::string good = R"({"kind": "rows", "dtype": "f32", "bytes": 1024, "us": 2})";
  EXPECT_THAT(why(file(good, R"({"kind": "gather", "ranks": 2, "bytes": 8, "us": 1})")),
              HasSubstr("collectives[0].kind: unknown collective 'gather'"));
  EXPECT_THAT(why(file(good, R"({"kind": "all_gather", "ranks": 1.5, "bytes": 8, "us": 1})")),
              HasSubstr("collectives[0].ranks must be a whole number of 2 or more"));
}

}  // namespace
}  // namespace cleave
