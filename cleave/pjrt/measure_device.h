#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cleave/machine/measurements.h"

namespace cleave::pjrt {

struct MeasureDeviceOptions {
  int64_t devices = 0;  // of a CPU plugin; 0: all that there are, which is one on a CPU
  bool small = false;   // sizes for a processor whatever the device is, to see that it works
  std::function<void(std::string_view what, double done)> progress = {};
};

// What XLA's kernels take on a device of this engine, and, if there are several devices, its
// collectives: what `cleave calibrate --emit jax` measures, without Python.
//
// A kernel runs several times inside one program, on arguments of its own each time, and what the
// program takes longer than with one of them is the kernels' time, without that of starting it.
DeviceMeasurements measure_device(const std::string& engine,
                                  const MeasureDeviceOptions& options = {});

}  // namespace cleave::pjrt
