#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cleave::xla {

using DeviceGroups = std::vector<std::vector<int64_t>>;
using DevicePairs = std::vector<std::pair<int64_t, int64_t>>;  // sender, receiver

// The groups of a collective in XLA's three spellings, from the attributes of an instruction:
//
//   replica_groups={{0,1},{2,3}}                    as listed; {} is none: all of them are one
//   group replica_groups=[4,2]<=[2,4]T(1,0)               0 ... 7 as 2x4, transposed, read as 4
//   rows of 2:
//                                                   {{0,4},{1,5},{2,6},{3,7}}
//   replica_groups=mesh['a'=2,'b'=4] {'a'}          devices that differ along these axes alone; an
//                                                   axis may be a part 'b':(1)2 of one
//   replica_groups=mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'b'}    over devices in this order,
//   which
//                                                   may be a transposed iota too: ([2,2]T(1,0))
//
// Throws UserError for a text that is none of these.
DeviceGroups replica_groups(std::string_view attributes);

// {{0,1},{1,0}}
DevicePairs source_target_pairs(std::string_view text);

// "2 groups of 4: {0,1,2,3}, ..."; "1 group of 8" for all.
std::string groups_text(const DeviceGroups& groups);

}  // namespace cleave::xla
