#pragma once

#include <memory>
#include <span>
#include <string>

#include "cleave/pjrt/tensor_program.h"
#include "cleave/spmd/program.h"

// XLA by the name that users give: `cleave run --engine xla:cpu`, compile(f, {.engine = "xla"}).
namespace cleave::pjrt {

// Whether the name is that of XLA's engine: xla, xla:NAME or xla:PATH; false for "cleave". Any
// other name is a UserError.
bool is_xla_engine(const std::string& engine);

// The client of an engine, with at least as many devices. Of several processes (processes.h), all
// make it together.
std::shared_ptr<Client> engine_client(const std::string& engine, int64_t devices);

// A function of a graph for one device. The arguments of these numbers are donated.
std::unique_ptr<TensorProgram> whole_program(const std::string& engine, Graph graph,
                                             const std::string& entry,
                                             std::span<const size_t> donated = {});
// A partitioned program for as many devices as its mesh has.
std::unique_ptr<TensorProgram> sharded_program(const std::string& engine, const Program& program,
                                               std::span<const size_t> donated = {});

// What a compiled function prints of itself: plugin, devices, memory.
std::string describe(const TensorProgram& program);

}  // namespace cleave::pjrt
