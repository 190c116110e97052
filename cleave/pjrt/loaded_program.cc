#include "cleave/pjrt/loaded_program.h"

#include "cleave/pjrt/hlo_text.h"
#include "cleave/pjrt/proto.h"

namespace cleave::pjrt {

ProgramHandles::ProgramHandles(const Client& client, c::LoadedExecutable* taken)
    : plugin(client.shared_plugin()), loaded(taken) {
  c::GetExecutable get;
  get.loaded = loaded;
  plugin->call(get, "asking for a program");
  executable = get.executable;
  c::ExecutableNumOutputs outputs;
  outputs.executable = executable;
  plugin->call(outputs, "asking for a program's results");
  num_outputs = outputs.num_outputs;
  c::LoadedExecutableDevices list;
  list.executable = loaded;
  plugin->call(list, "asking for a program's devices");
  for (size_t i = 0; i < list.num_devices; ++i)
    devices.push_back(client.local_device(list.devices[i]));
}

ProgramHandles::~ProgramHandles() {
  c::ExecutableDestroy args;
  args.executable = executable;
  plugin->call_silently(args);
  c::LoadedExecutableDestroy unload;
  unload.executable = loaded;
  plugin->call_silently(unload);
}

std::vector<std::vector<BufferPtr>> LoadedProgram::execute(
    std::span<const std::vector<BufferPtr>> args, std::span<const int64_t> keep) const {
  if (args.size() != devices().size())
    throw_user("a program for {} devices is given arguments for {}", devices().size(), args.size());
  const size_t num_args = args.empty() ? 0 : args[0].size();
  std::vector<std::vector<c::Buffer*>> inputs, outputs;
  for (const std::vector<BufferPtr>& row : args) {
    if (row.size() != num_args)
      throw_user("a program is given {} arguments for one device and {} for another", num_args,
                 row.size());
    std::vector<c::Buffer*>& handles = inputs.emplace_back();
    for (const BufferPtr& buffer : row) handles.push_back(buffer->handle());
    outputs.emplace_back(num_outputs());
  }
  std::vector<c::Buffer* const*> input_rows;
  std::vector<c::Buffer**> output_rows;
  for (size_t d = 0; d < args.size(); ++d) {
    input_rows.push_back(inputs[d].data());
    output_rows.push_back(outputs[d].data());
  }
  c::ExecuteOptions options;
  options.not_donated = keep.data();
  options.num_not_donated = keep.size();
  c::Execute call;
  call.executable = handles_->loaded;
  call.options = &options;
  call.arguments = input_rows.data();
  call.num_devices = args.size();
  call.num_args = num_args;
  call.outputs = output_rows.data();
  client_->plugin().call(call, "running a program");
  std::vector<std::vector<BufferPtr>> results;
  for (const std::vector<c::Buffer*>& row : outputs) {
    std::vector<BufferPtr>& buffers = results.emplace_back();
    for (c::Buffer* buffer : row)
      buffers.push_back(std::make_shared<DeviceBuffer>(client_, buffer));
  }
  return results;
}

ProgramMemory LoadedProgram::memory_stats() const {
  c::CompiledMemoryStats args;
  args.executable = handles_->executable;
  client_->plugin().call(args, "asking for a program's memory");
  return {args.argument, args.output, args.alias, args.temp, args.generated_code, args.peak};
}

std::string LoadedProgram::compiled_module() const {
  c::Program program;
  c::OptimizedProgram args;
  args.executable = handles_->executable;
  args.program = &program;
  client_->plugin().call(args, "asking for the compiled program");
  std::string code(program.code_size, '\0');
  program.code = code.data();
  client_->plugin().call(args, "asking for the compiled program");
  const std::string_view format(program.format, program.format_size);
  if (format == "hlo") return code;
  if (format != "hlo_with_config")
    throw_user("{}: gives its compiled program as '{}'; Cleave reads 'hlo' and 'hlo_with_config'",
               client_->plugin().name(), format);
  // HloModuleProtoWithConfig: the module is field 1.
  proto::Reader reader(code);
  while (const std::optional<proto::Field> field = reader.next())
    if (field->number == 1) return std::string(field->bytes);
  throw_user("{}: gives a compiled program without a module", client_->plugin().name());
}

std::string LoadedProgram::compiled_text() const { return hlo_text(compiled_module()); }

std::string LoadedProgram::serialize() const {
  c::ExecutableSerialize args;
  args.executable = handles_->executable;
  client_->plugin().call(args, "writing a program");
  std::string bytes(args.bytes, args.bytes_size);
  if (args.deleter) args.deleter(args.owner);
  return bytes;
}

}  // namespace cleave::pjrt
