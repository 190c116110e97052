#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/pjrt/cpu_plugin.h"

// autoshard(f, mesh, {.engine = "xla:..."}): plans that XLA runs.
namespace cleave::pjrt {
namespace {

TEST(AutoshardByXla, GivesWhatOneDeviceGives) {
  NEED_CPU_PLUGIN();
  const Tensor x = randn({13, 16}, 1), w = randn({16, 24}, 2), v = randn({24, 10}, 3);
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return matmul(gelu(matmul(a, b)), c);
  };
  const auto planned = autoshard(f, Mesh{{"data", 2}, {"model", 4}},
                                 {.out = {P()}, .engine = "xla:" + *cpu_plugin()});
  for (int i = 0; i < 2; ++i) EXPECT_LT(max(abs(planned(x, w, v) - f(x, w, v))).item(), 1e-4);
  EXPECT_THAT(planned.verify(), ::testing::HasSubstr("verified"));
}

}  // namespace
}  // namespace cleave::pjrt
