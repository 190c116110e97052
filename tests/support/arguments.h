#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/program.h"

namespace cleave {

// Random arguments of a function; each has a seed of its own.
inline std::vector<Array> arguments(const Function& function) {
  std::vector<Array> args;
  for (const Type& type : function.arg_types)
    args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)));
  return args;
}
inline std::vector<Array> arguments(const Graph& graph) {
  return arguments(*graph.find_function("main"));
}
inline std::vector<Array> arguments(const Program& program) {
  return arguments(program.entry_function());
}

}  // namespace cleave
