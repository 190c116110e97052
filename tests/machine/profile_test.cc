#include "cleave/machine/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/machine/collective.h"
#include "h200_measured.h"

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
    ASSERT_GT(errors.size(), 25u);
    EXPECT_LT(median(errors), 0.10) << (half ? "bf16" : "f32");
  }
}

TEST(Profile, H200PredictsMeasuredElementwiseAndRowOps) {
  const MachineProfile& h200 = builtin_profile("h200");
  std::vector<double> elementwise, rows;
  auto add = [&](std::vector<double>& errors, double read, double written, double us,
                 KernelClass kernel_class) {
    const double seconds = op_seconds({0, read, written, kernel_class}, DType::BF16, h200);
    errors.push_back(std::abs(seconds * 1e6 / us - 1));
  };
  for (const auto& [bytes, n, add_us, copy_us, gelu_us] : h200::kElementwise) {
    add(elementwise, 2 * n * bytes, n * bytes, add_us, KernelClass::Elementwise);
    add(elementwise, n * bytes, n * bytes, copy_us, KernelClass::Elementwise);
    add(elementwise, n * bytes, n * bytes, gelu_us, KernelClass::Elementwise);
  }
  for (const auto& row : h200::kRows) {
    const double bytes = 2 * row.rows * row.cols;
    add(rows, bytes, 2 * row.rows, row.sum_rows, KernelClass::Reduction);
    add(rows, bytes, 2 * row.cols, row.sum_cols, KernelClass::Reduction);
    add(rows, bytes, bytes, row.softmax, KernelClass::Softmax);
    add(rows, bytes, bytes, row.layer_norm, KernelClass::Norm);
    add(rows, bytes, bytes, row.transpose, KernelClass::Transpose);
  }
  EXPECT_LT(median(elementwise), 0.10);
  EXPECT_LT(median(rows), 0.15);
}

TEST(Profile, MoreWorkIsNeverFaster) {
  for (const std::string& name : builtin_profile_names()) {
    const MachineProfile& profile = builtin_profile(name);
    for (KernelClass kernel_class :
         {KernelClass::Elementwise, KernelClass::Matmul, KernelClass::Softmax}) {
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

TEST(Profile, JsonRoundTrip) {
  for (const std::string& name : builtin_profile_names()) {
    MachineProfile profile = builtin_profile(name);
    profile.axis_links["x"].fill({1.5, 12});
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

TEST(Profile, ErrorsNameTheField) {
  auto message = [](std::string_view text) -> std::string {
    try {
      profile_from_json(text);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(R"({"memory_gbs": 3})"), "machine profile: unknown field 'memory_gbs'");
  EXPECT_EQ(message(R"({"launch_us": -1})"), "machine profile: launch_us must not be negative");
  EXPECT_EQ(message(R"({"launch_us": "1"})"), "machine profile: launch_us must be a number");
  EXPECT_EQ(message(R"({"collectives": {"gather": []}})"),
            "machine profile: collectives: unknown collective 'gather'");
  EXPECT_EQ(message(R"({"collectives": {"all_gather": []}})"),
            "machine profile: collectives.all_gather must be a list of protocols");
  EXPECT_EQ(message(R"({"axes": {"x": {"all_gather": {"latency_us": 1, "gbps": 2}}}})"),
            "machine profile: axes.x says nothing of reduce_scatter; give it, or \"all\"");
  EXPECT_EQ(message(R"({"matmul": {"f99": {}}})"),
            "machine profile: matmul: unknown element type 'f99'");
  EXPECT_NE(message("{").find("parse error"), std::string::npos);
  EXPECT_NE(message(R"({"base": "k80"})").find("unknown machine 'k80'; built in are default, a100"),
            std::string::npos);
}

}  // namespace
}  // namespace cleave
