#include "cleave/machine/limits.h"

namespace cleave {
namespace {

// So fast that nothing of it is left in a time.
constexpr double kEndless = 1e12;

}  // namespace

MachineProfile without_arithmetic(MachineProfile profile) {
  profile.vector_tflops *= kEndless;
  profile.attention_tflops *= kEndless;
  profile.attention_backward_tflops *= kEndless;
  profile.executor.vector_tops *= kEndless;
  for (auto* rates : {&profile.matmul, &profile.convolution})
    for (auto& [dtype, rate] : *rates) {
      rate.tflops *= kEndless;
      rate.ramp_us = 0;
    }
  for (auto& [op, loops] : profile.loops)
    for (auto& [dtype, ns] : loops) ns = 0;
  for (auto& [dtype, tflops] : profile.tiles.tflops) tflops *= kEndless;
  profile.tiles.depthwise_tflops *= kEndless;
  profile.tiles.narrow_tflops *= kEndless;
  return profile;
}

MachineProfile without_memory(MachineProfile profile) {
  profile.memory_gbps *= kEndless;
  profile.cache_gbps *= kEndless;
  // A curve is floor and memory at once; its first point is the floor.
  for (auto& curves : profile.curves)
    for (auto& [dtype, curve] : curves) {
      curve.resize(1);
      curve[0].bytes *= kEndless;
    }
  return profile;
}

}  // namespace cleave
