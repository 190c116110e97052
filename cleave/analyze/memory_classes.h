#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "cleave/spmd/program.h"

namespace cleave::analyze {

// What memory is for.
enum class MemoryClass : uint8_t {
  Parameters,      // and their new values
  OptimizerState,  // moments, step counts, and their new values
  Gradients,
  Inputs,  // arguments that no result replaces: the batch, or every argument if nothing is trained
  Activations,
  Temporaries,  // copies in other layouts, and what kernels take for themselves
};
inline constexpr int kNumMemoryClasses = 6;
std::string_view name(MemoryClass memory_class);  // "parameters", ...
using BytesByClass = std::array<int64_t, kNumMemoryClasses>;

// The class of what every node makes and of every argument of the entry, from the flow of data:
//
//   a *state* is an argument with a successor: a result of its type that comes from it through
//     elementwise ops alone (p - rate * g, b * m + (1 - b) * g), or one that its attribute names
//     (`tf.aliasing_output`)
//   a state is a *parameter* if it meets other data: in a matmul, a gather, a broadcast, a
//     normalisation; it is optimizer state if only successors are computed from it. A telling name
//     ("opt_state", "mu", "params") decides before all of this
//   a *gradient* is what those elementwise ops start from beside the states: the last result of a
//     matmul or reduction, or its all_reduce, in the shape of a parameter
//   changes of layout are temporaries, unless what they make is a gradient
//   everything else is an activation
struct MemoryClasses {
  std::vector<MemoryClass> nodes;      // by node of the Program's graph
  std::vector<MemoryClass> arguments;  // of the entry
};
MemoryClasses memory_classes(const Program& program);

}  // namespace cleave::analyze
