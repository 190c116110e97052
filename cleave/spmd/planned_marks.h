#pragma once

#include <string_view>

namespace cleave {

// Marks of a planned module, which `plan::apply` sets and `partition` reads: unit attributes of
// nodes, so that they survive printing.
//
// An op takes its operands as they are, pending reductions with several users included, and rounds
// the sums that it leaves pending.
inline constexpr std::string_view kPlannedAttr = "cleave.planned";
// An sdy.reshard is made for itself, and not shared with others of the same value.
inline constexpr std::string_view kSeparateAttr = "cleave.separate";

// Numbers that whoever reads the partitioned program wants to find again: of an op of the plan, and
// of a change of layout. What the partitioner makes for a node that has them gets them too.
inline constexpr std::string_view kOpAttr = "cleave.op";
inline constexpr std::string_view kChangeAttr = "cleave.change";

// What an executor makes of an op (analyze/kernels.h).
inline constexpr std::string_view kKernelAttr = "cleave.kernel";
// The first step of a reshard of what such an op made, which may be in no memory.
inline constexpr std::string_view kSpillsAttr = "cleave.spills";

}  // namespace cleave
