#include "cleave/pjrt/engine.h"

#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/pjrt/find_plugins.h"
#include "cleave/runtime/executor.h"
#include "cleave/spmd/program_module.h"

namespace cleave::pjrt {
namespace {

void donate(Function& function, std::span<const size_t> donated) {
  function.arg_attrs.resize(function.arg_types.size());
  for (size_t argument : donated)
    if (!is_donated(function, argument)) function.arg_attrs[argument].set("jax.buffer_donor", true);
}

}  // namespace

bool is_xla_engine(const std::string& engine) {
  if (engine == "cleave") return false;
  if (engine == "xla" || engine.starts_with("xla:")) return true;
  throw_user(
      "there is no engine '{}'; say cleave, xla, or xla:PLUGIN (a name that `cleave devices` "
      "lists, "
      "or a path)",
      engine);
}

std::shared_ptr<Client> engine_client(const std::string& engine, int64_t devices) {
  is_xla_engine(engine);
  return Client::shared(plugin_path(engine.size() > 4 ? engine.substr(4) : std::string()), devices);
}

std::unique_ptr<TensorProgram> whole_program(const std::string& engine, Graph graph,
                                             const std::string& entry,
                                             std::span<const size_t> donated) {
  Function* function = graph.find_function(entry);
  if (!function) throw_user("there is no function @{} in the module", entry);
  donate(*function, donated);
  XlaModule module = one_device_module(graph, entry);
  std::vector<Port> arguments = whole_ports(module.arg_types);
  std::vector<Port> results = whole_ports(module.result_types);
  return std::make_unique<TensorProgram>(engine_client(engine, 1), std::move(module),
                                         std::move(arguments), std::move(results));
}

std::unique_ptr<TensorProgram> sharded_program(const std::string& engine, const Program& program,
                                               std::span<const size_t> donated) {
  SingleProgram single = single_program(program);
  require_same_numbers(single.graph);
  donate(*single.graph.find_function(single.entry), donated);
  const int64_t devices = program.mesh->num_devices();
  XlaModule module = every_device_module(single.graph, single.entry, devices);
  return std::make_unique<TensorProgram>(engine_client(engine, devices), std::move(module),
                                         std::move(single.arguments), std::move(single.results));
}

std::string describe(const TensorProgram& program) {
  const XlaExecutable& executable = program.executable();
  const ProgramMemory memory = executable.program().memory_stats();
  return fmt::format(
      "XLA ({}, {}): {} device{}; memory of each: {} of arguments, {} of results, {} of them in "
      "arguments, {} temporary\n",
      executable.client().plugin().name(), executable.client().platform(), executable.num_devices(),
      executable.num_devices() == 1 ? "" : "s", bytes_text(memory.arguments),
      bytes_text(memory.outputs), bytes_text(memory.aliased), bytes_text(memory.temporary));
}

}  // namespace cleave::pjrt
