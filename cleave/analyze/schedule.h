#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "cleave/analyze/program_cost.h"
#include "cleave/analyze/streams.h"
#include "cleave/core/axis.h"
#include "cleave/core/mesh.h"
#include "cleave/reshard/reshard.h"

namespace cleave::analyze {

// When a device does what, in one step of a Program: ops and changes of layout on the streams of
// streams.h. `tag` of an event is the index of its node in program.graph. Seconds are those of
// `program_cost`, whose sum is the length if nothing overlaps.
//
// A loop is laid out for one trip, and takes as long as all its trips together: what its body
// communicates overlaps with what the same trip computes. So is the dearest branch of a condition.
// Calls, manual and named computations are part of what is around them.
using Schedule = StreamSchedule;
Schedule schedule(const Program& program, const MachineProfile& profile, int64_t trips = 1);
// The same for callers that have the costs; `cost` is that of program and profile.
Schedule schedule(const Program& program, const ProgramCost& cost, const MachineProfile& profile,
                  int64_t trips = 1);

// The axes that a step of a reshard goes over.
AxisList axes_of(const ReshardStep& step);
// Where a collective over groups on so many nodes runs; steps that send nothing are computed.
Stream stream_of(std::string_view kind, int64_t nodes);

// The tasks of collectives, with what can be combined known by kind and axes.
class CollectiveTasks {
 public:
  CollectiveTasks(const MeshPtr& mesh, const MachineProfile& profile, Work& work)
      : mesh_(mesh), profile_(profile), work_(work) {}
  // `before` and `after`: bytes of the buffer on one device. `scattered`: over how many devices the
  // step before, of the same change of layout, has reduced and scattered it; 1: it was none.
  Task task(std::string_view kind, const AxisList& axes, double seconds, double before,
            double after, double scattered = 1);

 private:
  struct Group {
    Stream stream;
    int like;  // -1: nothing of its kind is combined
  };
  const Group& group(std::string_view kind, const AxisList& axes, double scattered);

  const MeshPtr& mesh_;
  const MachineProfile& profile_;
  Work& work_;
  std::map<std::tuple<std::string, AxisList, double>, Group> groups_;
};

//   step 12.50 ms: 10.10 ms compute and 0.10 ms more beside collectives, 3.00 ms communication of
//   which 2.30 ms exposed
std::string to_string(const Schedule& schedule);

// Chrome's and Perfetto's trace format, one track for each stream. Of a loop the first trip is
// drawn, and the others as one bar.
std::string timeline(const Schedule& schedule, const Program& program);

}  // namespace cleave::analyze
