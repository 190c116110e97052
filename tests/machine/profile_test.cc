#include "cleave/machine/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "cleave/core/error.h"
#include "cleave/machine/collective.h"
#include "cleave/machine/host_profile.h"
#include "h200_measured.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_path.h"

namespace cleave {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(Profile, H200PredictsMeasuredMatmuls) {
  const MachineProfile& h200 = builtin_profile("h200");
  for (bool half : {true, false}) {
    std::vector<double> errors;
    for (const auto& [is_half, m, k, n, us] : h200::kMatmuls) {
      if (is_half != half) continue;
      const double bytes = half ? 2 : 4;
      const OpCost cost{2 * m * k * n, bytes * (m * k + k * n), bytes * m * n, KernelClass::Matmul};
      const double seconds = op_seconds(cost, half ? DType::BF16 : DType::F32, h200);
      errors.push_back(std::abs(seconds * 1e6 / us - 1));
    }
    ASSERT_GT(errors.size(), 100u);
    EXPECT_LT(median(errors), 0.10) << (half ? "bf16" : "f32");
  }
  std::vector<double> errors;
  for (const auto& [b, m, k, n, us] : h200::kBatchedMatmuls) {
    const OpCost cost{2 * b * m * k * n, 2 * b * (m * k + k * n), 2 * b * m * n,
                      KernelClass::Matmul};
    errors.push_back(std::abs(op_seconds(cost, DType::BF16, h200) * 1e6 / us - 1));
  }
  EXPECT_LT(median(errors), 0.20);
}

TEST(Profile, H200PredictsMeasuredElementwiseAndRowOps) {
  const MachineProfile& h200 = builtin_profile("h200");
  std::vector<double> elementwise, functions, rows;
  auto add = [&](std::vector<double>& errors, double read, double written, double us,
                 KernelClass kernel_class) {
    const double seconds = op_seconds({0, read, written, kernel_class}, DType::BF16, h200);
    errors.push_back(std::abs(seconds * 1e6 / us - 1));
  };
  for (const auto& [bytes, n, add_us, copy_us, gelu_us] : h200::kElementwise) {
    add(elementwise, 2 * n * bytes, n * bytes, add_us, KernelClass::Elementwise);
    add(elementwise, n * bytes, n * bytes, copy_us, KernelClass::Elementwise);
    add(functions, n * bytes, n * bytes, gelu_us, kFunctionClass);
  }
  for (const auto& row : h200::kRows) {
    const double bytes = 2 * row.rows * row.cols;
    add(rows, bytes, 2 * row.rows, row.sum_rows, KernelClass::Reduction);
    add(rows, bytes, 2 * row.cols, row.sum_cols, KernelClass::Reduction);
    add(rows, bytes, bytes, row.softmax, KernelClass::Softmax);
    add(rows, bytes, bytes, row.layer_norm, KernelClass::Norm);
    add(rows, bytes, bytes, row.transpose, KernelClass::Transpose);
  }
  EXPECT_LT(median(elementwise), 0.05);
  EXPECT_LT(median(functions), 0.16);
  elementwise.insert(elementwise.end(), functions.begin(), functions.end());
  EXPECT_LT(median(elementwise), 0.10);
  EXPECT_LT(median(rows), 0.15);
}

TEST(Profile, MoreWorkIsNeverFaster) {
  for (const std::string& name : builtin_profile_names()) {
    const MachineProfile& profile = builtin_profile(name);
    for (KernelClass kernel_class :
         {KernelClass::Elementwise, KernelClass::Matmul, KernelClass::Softmax, kFunctionClass,
          kIndexingClass, kConvolutionClass}) {
      double last = 0;
      for (double size = 1; size < 1e13; size *= 1.3) {
        const double seconds =
            op_seconds({size, size / 4, size / 8, kernel_class}, DType::BF16, profile);
        EXPECT_GE(seconds, last) << name << " at " << size;
        last = seconds;
      }
    }
    EXPECT_GE(op_seconds({0, 1, 0}, DType::F32, profile), profile.launch_us * 1e-6);
    EXPECT_EQ(op_seconds({}, DType::F32, profile), 0);
  }
}

TEST(Profile, CurvesGoByThePowerBetweenPoints) {
  const KernelCurve curve{{1000, 1}, {4000, 2}, {16000, 8}};
  EXPECT_DOUBLE_EQ(curve_seconds(curve, 10), 1e-6);
  EXPECT_DOUBLE_EQ(curve_seconds(curve, 2000), std::sqrt(2) * 1e-6);
  EXPECT_DOUBLE_EQ(curve_seconds(curve, 4000), 2e-6);
  EXPECT_DOUBLE_EQ(curve_seconds(curve, 8000), 4e-6);
  EXPECT_DOUBLE_EQ(curve_seconds(curve, 160000), 80e-6);
}

TEST(Profile, CurvesByClassAndElementType) {
  MachineProfile profile = default_profile();
  auto& elementwise = profile.curves[static_cast<size_t>(KernelClass::Elementwise)];
  elementwise[DType::F32] = {{1e3, 1}, {1e6, 100}};
  elementwise[DType::BF16] = {{1e3, 1}, {1e6, 300}};
  const OpCost cost{0, 5e5, 5e5};
  EXPECT_DOUBLE_EQ(op_seconds(cost, DType::F32, profile), 100e-6);
  EXPECT_DOUBLE_EQ(op_seconds(cost, DType::I32, profile), 100e-6);  // as wide
  EXPECT_DOUBLE_EQ(op_seconds(cost, DType::F16, profile), 300e-6);
  EXPECT_DOUBLE_EQ(op_seconds(cost, DType::F64, profile), 100e-6);  // f32, where nothing is
  OpCost function = cost;
  function.kernel = kFunctionClass;
  EXPECT_DOUBLE_EQ(op_seconds(function, DType::F32, profile),
                   op_seconds(function, DType::F32, default_profile()));
  // Two of four cores' worth of arithmetic, one of memory.
  profile.concurrent_devices = 2;
  profile.concurrent_memory = 1;
  profile.devices_per_node = 64;
  profile.cache_bytes = 1e4;
  profile.launch_us = 0.5;
  EXPECT_DOUBLE_EQ(op_seconds(cost, DType::F32, shared_by(profile, 4)), 400e-6);
  EXPECT_DOUBLE_EQ(op_seconds({0, 500, 500}, DType::F32, shared_by(profile, 4)), 2e-6);
}

TEST(Profile, JsonRoundTrip) {
  for (const std::string& name : builtin_profile_names()) {
    MachineProfile profile = builtin_profile(name);
    profile.axis_links["x"].fill({1.5, 12});
    profile.convolution[DType::F32] = {3, 4, 0.5};
    profile.curves[static_cast<size_t>(kIndexingClass)][DType::BF16] = {{100, 0.5}, {1e6, 77}};
    profile.concurrent_memory = 1.5;
    profile.collectives[0][0].shared_memory = true;
    profile.collectives[0][0].local_gbps = 12;
    profile.collectives[0][0].across_base_us = 3;
    EXPECT_EQ(profile_from_json(to_json(profile)), profile) << name;
  }
}

TEST(Profile, JsonStartsFromABase) {
  const MachineProfile profile =
      profile_from_json(R"({"base": "a100", "name": "mine", "devices_per_node": 4})");
  EXPECT_EQ(profile.name, "mine");
  EXPECT_EQ(profile.devices_per_node, 4);
  EXPECT_EQ(profile.matmul, builtin_profile("a100").matmul);
}

TEST(Profile, AnotherExecutorStandsBehindTheMachine) {
  MachineProfile expected = builtin_profile("h100");
  expected.executor = builtin_executor("inductor");
  EXPECT_EQ(load_profile("h100+inductor"), expected);
  EXPECT_EQ(load_profile("h100+eager+inductor"), expected);
  EXPECT_THAT(error_of([] { load_profile("h100+triton"); }), testing::HasSubstr("h100+triton"));
}

TEST(Profile, JsonReplacesTheNetwork) {
  const MachineProfile h100 = builtin_profile("h100");
  const MachineProfile profile =
      profile_from_json(R"({"base": "h100", "network": {"gbps": 25, "hop_us": 33}})");
  EXPECT_EQ(profile.network, (Network{25, 33}));
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind)
    for (size_t i = 0; i < profile.collectives[kind].size(); ++i) {
      const CollectiveProtocol &a = h100.collectives[kind][i], &b = profile.collectives[kind][i];
      EXPECT_DOUBLE_EQ(b.across_gbps, a.across_gbps / 2);
      EXPECT_DOUBLE_EQ(b.across_us, a.across_us / 2);
      EXPECT_EQ(b.inside_gbps, a.inside_gbps);
    }
  // The collectives of a file are taken as they are.
  const MachineProfile own = profile_from_json(
      R"({"network": {"gbps": 25, "hop_us": 33}, "collectives": {"all_gather": [{"inside_gbps": 9, "across_gbps": 7}]}})");
  EXPECT_EQ(own.collectives[0][0].across_gbps, 7);
}

TEST(Profile, ErrorsNameTheField) {
  auto message = [](std::string_view text) { return error_of([&] { profile_from_json(text); }); };
  EXPECT_EQ(message(R"({"memory_gbs": 3})"), "machine profile: unknown field 'memory_gbs'");
  EXPECT_EQ(message(R"({"launch_us": -1})"), "machine profile: launch_us must not be negative");
  EXPECT_EQ(message(R"({"launch_us": "1"})"), "machine profile: launch_us must be a number");
  EXPECT_EQ(message(R"({"collectives": {"gather": []}})"),
            "machine profile: collectives: unknown collective 'gather'");
  EXPECT_EQ(message(R"({"collectives": {"all_gather": [{"inside_gbps": 1, "tree": true}]}})"),
            "machine profile: collectives.all_gather: only an all_reduce runs as a tree");
  EXPECT_EQ(message(R"({"collectives": {"all_reduce": [{"inside_gbps": 1, "in_switch": true}]}})"),
            "machine profile: collectives.all_reduce: in_switch needs \"tree\": true");
  EXPECT_EQ(message(R"({"collectives": {"all_reduce": [{"inside_gbps": 1, "tree": 1}]}})"),
            "machine profile: collectives.all_reduce.tree must be true or false");
  EXPECT_EQ(message(R"({"network": {"gbps": 25}})"),
            "machine profile: network must give gbps and hop_us, both positive");
  EXPECT_EQ(message(R"({"network": {"gbps": 25, "latency": 1}})"),
            "machine profile: network: unknown field 'latency'");
  EXPECT_EQ(message(R"({"base": "tpu-v4", "network": {"gbps": 25, "hop_us": 3}})"),
            "machine profile 'tpu-v4' has no network that could be changed; give its collectives");
  EXPECT_EQ(message(R"({"collectives": {"all_gather": []}})"),
            "machine profile: collectives.all_gather must be a list of protocols");
  EXPECT_EQ(message(R"({"axes": {"x": {"all_gather": {"latency_us": 1, "gbps": 2}}}})"),
            "machine profile: axes.x says nothing of reduce_scatter; give it, or \"all\"");
  EXPECT_EQ(message(R"({"matmul": {"f99": {}}})"),
            "machine profile: matmul: unknown element type 'f99'");
  EXPECT_EQ(message(R"({"version": 7})"),
            "machine profile: its version is 7; this program reads version 1");
  EXPECT_EQ(message(R"({"devices_per_node": 1.5})"),
            "machine profile: devices_per_node must be a whole number from 1 to 1e9");
  EXPECT_EQ(message(R"({"name": 3})"), "machine profile: name must be a string");
  EXPECT_EQ(message(R"({"matmul": {}})"), "machine profile: matmul must have at least one rate");
  EXPECT_EQ(message(R"({"curves": {"sorting": {}}})"),
            "machine profile: curves: unknown kind 'sorting'");
  EXPECT_EQ(message(R"({"curves": {"function": {"f32": [[1, 2, 3]]}}})"),
            "machine profile: curves.function.f32 must be a list of [bytes, microseconds]");
  EXPECT_EQ(message(R"({"curves": {"function": {"f32": [[10, 2], [20, 1]]}}})"),
            "machine profile: curves.function.f32: more bytes must come later and take no less "
            "time");
  EXPECT_EQ(message("[1]"), "machine profile: the file must be an object");
  EXPECT_NE(message("{").find("parse error"), std::string::npos);
  EXPECT_NE(message(R"({"base": "k80"})").find("unknown machine 'k80'; built in are default, a100"),
            std::string::npos);
}

std::string load_error(const std::string& name) {
  return error_of([&] { load_profile(name); });
}

TEST(Profile, FilesAreNamedInErrors) {
  const std::string path = temp_path("bad_profile.json");
  std::ofstream(path) << R"({"launch_us": -1})";
  EXPECT_EQ(load_error(path), path + ": machine profile: launch_us must not be negative");
  EXPECT_EQ(load_error("/"), "cannot read '/': it is a folder");
  EXPECT_THAT(load_error("h1000"), testing::StartsWith("unknown machine 'h1000'; built in are"));
}

TEST(Profile, TheHostIsWhatWasCalibrated) {
  const std::string path = temp_path("cleave_host/host.json");
  std::remove(path.c_str());
  setenv("CLEAVE_HOST_PROFILE", path.c_str(), 1);
  EXPECT_THAT(load_error("host"), testing::StartsWith("this host has not been measured"));
  MachineProfile mine = default_profile();
  mine.name = "mine";
  write_profile(path, mine);
  EXPECT_EQ(load_profile("host"), mine);
  unsetenv("CLEAVE_HOST_PROFILE");
}

TEST(Profile, LoopsOfAnOpOfItsClassOrOfAnyOp) {
  MachineProfile host = default_profile();
  EXPECT_EQ(loop_seconds("add", KernelClass::Elementwise, DType::F32, 1000, host), 0);
  host.loops["elementwise"] = {{DType::F32, 2}, {DType::BF16, 5}};
  host.loops["function"] = {{DType::F32, 20}};
  host.loops["tanh"] = {{DType::F32, 30}};
  auto ns = [&](const char* op, KernelClass kernel, DType dtype) {
    return loop_seconds(op, kernel, dtype, 1000, host) * 1e6;
  };
  EXPECT_NEAR(ns("tanh", kFunctionClass, DType::F32), 30, 1e-9);
  EXPECT_NEAR(ns("cosine", kFunctionClass, DType::F32), 20, 1e-9);
  EXPECT_NEAR(ns("add", KernelClass::Elementwise, DType::BF16), 5, 1e-9);
  EXPECT_NEAR(ns("add", KernelClass::Elementwise, DType::I32), 2, 1e-9);  // as wide as f32
  EXPECT_NEAR(ns("gather", kIndexingClass, DType::F32), 2, 1e-9);
  // Two devices on one core.
  host.concurrent_devices = 1;
  EXPECT_NEAR(loop_seconds("tanh", kFunctionClass, DType::F32, 1000, shared_by(host, 2)), 60e-6,
              1e-12);
}

// A pass is what an addition of values that no cache holds takes more than its loop.
TEST(Profile, PassesAreWhatMemoryAdds) {
  MachineProfile host = default_profile();
  host.memory_gbps = 10;
  EXPECT_NEAR(pass_seconds(1e6, host), 1e-4, 1e-12);
  host.loops["elementwise"] = {{DType::F32, 1}};
  // 4 ms for 12 MB, of which the loop over a million elements takes one.
  host.curves[0][DType::F32] = {{12, 1}, {12e3, 2}, {12e6, 4000}};
  EXPECT_NEAR(pass_seconds(4e6, host), 1e-3, 1e-9);
  EXPECT_NEAR(pass_seconds(4e3, host), 1e-6, 1e-12);
  host.loops["elementwise"] = {{DType::F32, 5}};
  EXPECT_EQ(pass_seconds(4e6, host), 0);  // arithmetic is all that limits it
}

}  // namespace
}  // namespace cleave
