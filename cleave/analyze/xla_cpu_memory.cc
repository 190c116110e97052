#include "cleave/analyze/xla_cpu_memory.h"

#include "cleave/analyze/xla_cpu/hlo.h"
#include "cleave/rewrite/simplify.h"

namespace cleave::analyze {
namespace {

struct Compiled {
  hlo::Module module;
  std::vector<std::vector<int>> order;
};

Compiled compile_for_cpu(Graph& graph, const std::string& entry, bool has_library) {
  inline_calls(graph);
  canonicalize(graph);
  expand(graph);
  inline_calls(graph);
  fold_constants(graph);
  simplify_arithmetic(graph);
  remove_dead(graph);
  Compiled made{hlo::lower(graph, entry), {}};
  made.module.has_library = has_library;
  hlo::simplify(made.module);
  hlo::fuse_library_ops(made.module);
  hlo::fuse_loops(made.module);
  hlo::combine_all_reduces(made.module);
  hlo::insert_copies(made.module);
  made.order = hlo::schedule(made.module);
  return made;
}

}  // namespace

XlaCpuMemory xla_cpu_memory(Graph graph, const std::string& entry, bool has_library) {
  const Compiled made = compile_for_cpu(graph, entry, has_library);
  const hlo::Memory memory = hlo::assign_buffers(made.module, made.order);
  return {memory.arguments, memory.results, memory.aliased, memory.temporaries};
}

XlaCpuMemory xla_cpu_memory(const SingleProgram& program, bool has_library) {
  return xla_cpu_memory(program.graph, program.entry, has_library);
}

bool has_library_fusions(std::string_view compiled_text) {
  return compiled_text.find("ynn_fusion") != std::string_view::npos;
}

std::string xla_cpu_schedule(Graph graph, const std::string& entry) {
  const Compiled made = compile_for_cpu(graph, entry, true);
  return to_string(made.module, made.order);
}

}  // namespace cleave::analyze
