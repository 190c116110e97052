#include "cleave/pjrt/xla_executable.h"

#include <algorithm>

#include "cleave/core/error.h"

namespace cleave::pjrt {

XlaExecutable::XlaExecutable(std::shared_ptr<Client> client, XlaModule module)
    : client_(std::move(client)), module_(std::move(module)) {
  if (module_.settings.devices.empty())
    module_.settings.devices =
        client_->devices_for(module_.settings.replicas * module_.settings.partitions);
  const std::vector<int64_t>& own = client_->local_device_ids();
  for (size_t d = 0; d < module_.settings.devices.size(); ++d)
    if (std::find(own.begin(), own.end(), module_.settings.devices[d]) != own.end())
      partitions_.push_back(static_cast<int64_t>(d));
  program_ = client_->compile(module_.text, module_.settings);
  if (program_->num_outputs() != module_.result_types.size())
    throw_user("{}: made a program of {} results of a function that has {}",
               client_->plugin().name(), program_->num_outputs(), module_.result_types.size());
  if (program_->devices().size() != partitions_.size())
    throw_user("{}: runs a program on {} devices of this process, which has {} of the program's",
               client_->plugin().name(), program_->devices().size(), partitions_.size());
}

BufferPtr XlaExecutable::to_device(const Array& array, size_t argument, size_t row) const {
  // A plugin may end the process over a wrong size, so it is checked here.
  const Type& type = module_.arg_types.at(argument);
  if (array.dtype() != type.dtype || array.shape() != type.shape)
    throw_user("argument {} of the function is {}, and {} is given", argument, to_string(type),
               to_string(Type::tensor(array.dtype(), array.shape())));
  return client_->to_device(array, program_->devices().at(row));
}

std::vector<std::vector<BufferPtr>> XlaExecutable::start(
    std::span<const std::vector<BufferPtr>> args, std::span<const int64_t> keep) const {
  for (const std::vector<BufferPtr>& row : args) {
    if (row.size() != module_.arg_types.size())
      throw_user("the function takes {} arguments, and {} are given", module_.arg_types.size(),
                 row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      const Type& type = module_.arg_types[i];
      if (row[i]->dtype() != type.dtype || row[i]->shape() != type.shape)
        throw_user("argument {} of the function is {}, and a buffer of {} is given", i,
                   to_string(type), to_string(Type::tensor(row[i]->dtype(), row[i]->shape())));
    }
  }
  return program_->execute(args, keep);
}

std::vector<std::vector<Array>> XlaExecutable::run(
    const std::vector<std::vector<Array>>& args) const {
  std::vector<std::vector<BufferPtr>> buffers(args.size());
  for (size_t d = 0; d < args.size(); ++d)
    for (size_t i = 0; i < args[d].size(); ++i) buffers[d].push_back(to_device(args[d][i], i, d));
  std::vector<std::vector<Array>> results;
  for (const std::vector<BufferPtr>& row : start(buffers)) {
    std::vector<Array>& arrays = results.emplace_back();
    for (const BufferPtr& buffer : row) arrays.push_back(buffer->to_host());
  }
  return results;
}

}  // namespace cleave::pjrt
