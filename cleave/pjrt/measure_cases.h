#pragma once

#include <string>
#include <vector>

#include "cleave/graph/type.h"
#include "cleave/machine/measurements.h"

namespace cleave::pjrt {

// A kernel to measure: a function in StableHLO's text, and what its row of the measurements says.
struct MeasureCase {
  MeasuredKernel row;                // all but its time
  std::string body;                  // the ops of a function of %a0, %a1, ...
  std::vector<std::string> returns;  // the values that it returns
  std::vector<Type> arguments, results;

  double bytes() const;  // that enter and leave it
};

// The kinds and sizes of `cleave calibrate --emit jax`: products and convolutions with their
// gradients between kernels that wait for memory. `small` has sizes for a processor.
// `tensor_float`: products of f32 that do not ask for more run in tf32. `bf16` is the type of most
// of them; f32 for devices that have no other floats, so that one rate is fitted to one type.
std::vector<MeasureCase> measure_cases(bool small, bool tensor_float, DType bf16 = DType::BF16);

// Runs the function `times` over, on arguments of its own each time: one after the other, as ops of
// one program that nothing can merge.
std::string repeated_module(const MeasureCase& measured, int64_t times);

// Any numbers between -1 and 1, of this type: a device takes less power, and is faster, on zeros.
std::string numbers_module(const Type& type);

// `links` steps of x * 0.5 + sum of rows * 0.01, which cannot become one kernel, behind products of
// size x size that keep the device busy while the host launches.
std::string launches_module(int64_t links, int64_t size);

// A program that does next to nothing to so many donated arguments.
std::string arguments_module(int64_t count);

// `links` collectives over all devices, each on what the last one left of `elements` floats.
std::string collectives_module(CollectiveKind kind, int64_t ranks, int64_t elements, int64_t links);

}  // namespace cleave::pjrt
