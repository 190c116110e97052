#include "cleave/plan/objective.h"

#include "cleave/core/error.h"

namespace cleave::plan {

std::string_view name(Objective objective) {
  switch (objective) {
    case Objective::Step:
      return "step";
    case Objective::Sum:
      return "sum";
    case Objective::Bytes:
      return "bytes";
  }
  return "";
}

Objective objective_from_name(std::string_view objective) {
  for (Objective one : {Objective::Step, Objective::Sum, Objective::Bytes})
    if (name(one) == objective) return one;
  throw_user("objective '{}': there are step, sum and bytes", objective);
}

MachineProfile profile_for(MachineProfile profile, Objective objective) {
  if (objective != Objective::Bytes) return profile;
  CollectiveProtocol by_bytes;
  by_bytes.name = "bytes";
  by_bytes.inside_gbps = by_bytes.across_gbps = kBytesOfSecond * 1e-9;
  profile.collectives.fill({by_bytes});
  profile.axis_links.clear();
  profile.executor.overlaps = false;
  return profile;
}

}  // namespace cleave::plan
