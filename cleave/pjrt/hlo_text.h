#pragma once

#include <string>
#include <string_view>

namespace cleave::pjrt {

// XLA's text of a module from its serialized HloModuleProto, as a plugin gives it: computations in
// order, an instruction a line, with shapes and layouts, operands, the computations that it calls,
// collectives with their groups and channels, dimensions, metadata and the backend's configuration
// (with the trip counts of loops). Constants of more than one element are written as {...}.
//
//   %all-reduce.1 = f32[4,8]{1,0} all-reduce(%add.1), channel_id=1,
//     replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=%region_0.1
//
// Throws UserError if the bytes are no message.
std::string hlo_text(std::string_view module);

}  // namespace cleave::pjrt
