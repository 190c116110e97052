#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/sharding.h"

namespace cleave::plan {

// What the caller fixes of the values whose name matches: a layout, or axes that may not split
// them. It speaks of a value as its users see it; the op may leave it otherwise, and it is
// resharded at once.
struct Pin {
  std::string pattern;    // a name, with * for any characters
  ShardingSpec spec;      // open dimensions may get more axes; no mesh: every layout is allowed
  std::string text;       // as the user wrote it, for messages
  AxisList without = {};  // whole axes that split no dimension
};

// From text, as on the command line and on the lines of a file:
//
//   arg3=[{"data"}, {?}]       this layout; {?} leaves a dimension to the planner
//   forbid *.norm=model        none of these axes (after commas) splits it
//   replicate arg0             whole on every device
//
// Throws UserError that says which of these it is not.
Pin parse_pin(std::string_view text, const MeshPtr& mesh);
// One on each line; empty lines and those that begin with # are skipped.
std::vector<Pin> parse_pins(std::string_view lines, const MeshPtr& mesh);

// Whether the pin speaks of this value. A pattern with a star passes over values of another rank
// than its layout; a name without one does not, and the rank is checked where it is used.
bool applies(const Pin& pin, std::string_view name, size_t rank);
// The pin as a spec of a value of this rank: [{?}, {?}], replicated={"model"}
ShardingSpec spec_for(const Pin& pin, const MeshPtr& mesh, size_t rank);

// Whether a spec is one of those that a pin allows.
bool matches(const ShardingSpec& spec, const ShardingSpec& pin);
bool matches_pattern(std::string_view name, std::string_view pattern);

}  // namespace cleave::plan
