#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/pjrt/compile_settings.h"

namespace cleave::pjrt {

// A function of a module as XLA is to compile it: text whose entry is @main, and how.
struct XlaModule {
  std::string text;
  CompileSettings settings;
  std::vector<Type> arg_types, result_types;  // of one device
  std::vector<bool> donated;                  // by argument
};

// For one device. Shardings, and the ops that have no other purpose, are left out.
//
// What XLA's engine cannot take is a UserError that names it: sizes that are not known, tokens,
// elements that PJRT has no name for, ops of dialects that XLA does not read.
XlaModule one_device_module(const Graph& graph, const std::string& entry);

// For `partitions` devices that all run the entry, which has the types of one device: arguments and
// results are marked as manually partitioned, so that XLA takes the program as it is.
XlaModule every_device_module(const Graph& graph, const std::string& entry, int64_t partitions);

}  // namespace cleave::pjrt
