#include "cleave/pjrt/compile_settings.h"

#include "cleave/core/error.h"
#include "cleave/pjrt/proto.h"

namespace cleave::pjrt {
namespace {

// DeviceAssignmentProto: counts of replicas and partitions, then the devices of each partition.
proto::Writer assignment(const CompileSettings& settings) {
  proto::Writer writer;
  writer.integer(1, settings.replicas).integer(2, settings.partitions);
  for (int64_t partition = 0; partition < settings.partitions; ++partition) {
    std::vector<int64_t> replicas;
    for (int64_t replica = 0; replica < settings.replicas; ++replica)
      replicas.push_back(settings.devices[replica * settings.partitions + partition]);
    writer.message(3, proto::Writer().packed(1, replicas));
  }
  return writer;
}

}  // namespace

std::string serialize(const CompileSettings& settings) {
  if (settings.replicas < 1 || settings.partitions < 1)
    throw_user("a module is compiled for at least one replica and one partition, not for {} and {}",
               settings.replicas, settings.partitions);
  const auto devices = static_cast<size_t>(settings.replicas * settings.partitions);
  if (!settings.devices.empty() && settings.devices.size() != devices)
    throw_user("a module for {} devices is given {} of them", devices, settings.devices.size());
  // ExecutableBuildOptionsProto, which is field 3 of CompileOptionsProto.
  proto::Writer build;
  build.integer(4, settings.replicas).integer(5, settings.partitions);
  if (settings.spmd_partitioning) build.boolean(6, true);
  if (!settings.devices.empty()) build.message(9, assignment(settings));
  if (settings.shardy) build.boolean(19, true);
  return proto::Writer().message(3, build).text();
}

}  // namespace cleave::pjrt
