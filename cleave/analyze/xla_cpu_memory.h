#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/spmd/single_program.h"

namespace cleave::analyze {

// What XLA's compiler for CPUs lays out for a program on each device, in the terms of its
// `memory_analysis`: it follows the compiler's own steps (xla_cpu/hlo.h), so that the layout of a
// value, what is fused and when it runs count as they do there.
struct XlaCpuMemory {
  int64_t arguments = 0;
  int64_t results = 0;  // with a table of pointers to them, if there are several
  int64_t aliased = 0;  // of results, in the memory of donated arguments
  int64_t temporaries = 0;
  int64_t total() const { return arguments + results - aliased + temporaries; }
};
// Newer versions of XLA give products and reductions to a library, YNNPACK, which fuses otherwise
// than XLA does; `has_library` says whether this one does.
XlaCpuMemory xla_cpu_memory(const SingleProgram& program, bool has_library = true);
// Of a module of one function for one device.
XlaCpuMemory xla_cpu_memory(Graph graph, const std::string& entry, bool has_library = true);
// Whether XLA's compiled text has such products.
bool has_library_fusions(std::string_view compiled_text);

// How XLA would run it: a line for each instruction, in order. For people who compare it with a
// dump of XLA (`--xla_dump_to`).
std::string xla_cpu_schedule(Graph graph, const std::string& entry);

}  // namespace cleave::analyze
