#include "cleave/analyze/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cleave/core/shard_layout.h"
#include "cleave/core/units.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/location.h"
#include "cleave/machine/overlap.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/runtime/chrome_trace.h"

namespace cleave::analyze {
namespace {

// A Program as work for the streams.
class ProgramWork {
 public:
  ProgramWork(const Program& program, const ProgramCost& cost, const MachineProfile& profile,
              int64_t trips)
      : program_(program),
        graph_(program.graph),
        profile_(profile),
        trips_(trips),
        cost_of_(program.graph.num_nodes(), nullptr),
        made_by_(program.graph.num_values()) {
    for (const NodeCost& node : cost.nodes) cost_of_[node.node.index] = &node;
  }

  Work run() {
    Work work;
    CollectiveTasks collectives(program_.mesh, profile_, work);
    collectives_ = &collectives;
    Work body = region_alone(program_.entry_function().body);
    work.stretches = std::move(body.stretches);
    work.inners = std::move(body.inners);
    return work;
  }

 private:
  // The task that makes a value, of a stretch that is known by number: what an earlier stretch made
  // is there.
  struct Maker {
    int stretch = -1;
    int task = -1;
  };

  Work region_alone(RegionId id) {
    Work* const outer = work_;
    const int stretch = stretch_;
    Work work;
    work_ = &work;
    begin_stretch();
    region(id);
    work_ = outer;
    stretch_ = stretch;
    return work;
  }

  void begin_stretch() {
    work_->stretches.emplace_back();
    stretch_ = ++stretches_;
  }

  void region(RegionId id) {
    for (NodeId node : graph_.region(id).nodes) visit(node);
  }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    switch (flow_of(node)) {
      case Flow::Call:
        if (const Function* function = callee(graph_, node); function && function->body.valid())
          inline_region(node, function->body);
        return;
      case Flow::Manual:
      case Flow::Named:
        return inline_region(node, node.regions[0]);
      case Flow::Loop: {
        const LoopRegions parts = *loop_of(node);
        const auto trips = static_cast<double>(trip_count(graph_, node).value_or(trips_));
        return between({{parts.condition, trips + 1}, {parts.body, trips}}, id);
      }
      case Flow::Branches: {
        // The costs know the dearest; the others have none.
        std::vector<std::pair<RegionId, double>> parts;
        for (RegionId branch : node.regions) parts.emplace_back(branch, 1);
        return between(parts, id);
      }
      case Flow::Barrier:
      case Flow::None:
      case Flow::Scan:
        return add(id);
    }
  }

  // A value that is in no memory is written first.
  void add(NodeId id) {
    const NodeCost* cost = cost_of_[id.index];
    if (cost && cost->spill_seconds > 0 && cost->executions > 0) {
      const ValueId operand = graph_.node(id).operands[0];
      Task spill;
      spill.tag = id.index;
      spill.seconds = cost->spill_seconds / cost->executions;
      if (const int maker = maker_of(operand); maker >= 0) spill.after.push_back(maker);
      spilled_ = static_cast<int>(work_->stretches.back().tasks.size());
      work_->stretches.back().tasks.push_back(std::move(spill));
    }
    add(id, task_of(id));
    spilled_ = -1;
  }

  void inline_region(const Node& node, RegionId body) {
    const std::vector<ValueId>& args = graph_.region(body).args;
    for (size_t i = 0; i < args.size() && i < node.operands.size(); ++i)
      made_by_[args[i].index] = made_by_[node.operands[i].index];
    region(body);
    const std::vector<ValueId> results = returned_values(graph_, body);
    for (size_t i = 0; i < results.size() && i < node.results.size(); ++i)
      made_by_[node.results[i].index] = made_by_[results[i].index];
  }

  // Regions that run when everything before them has ended. If they take no time, the op is one
  // that takes none.
  void between(const std::vector<std::pair<RegionId, double>>& parts, NodeId id) {
    bool any = false;
    for (const auto& [part, times] : parts) {
      if (times <= 0) continue;
      Work inner = region_alone(part);
      if (!takes_time(inner)) continue;
      any = true;
      work_->stretches.back().inner = static_cast<int>(work_->inners.size());
      work_->stretches.back().times = times;
      work_->inners.push_back(std::move(inner));
      begin_stretch();
    }
    if (!any) add(id, {});
  }

  Task task_of(NodeId id) {
    Task task;
    const NodeCost* cost = cost_of_[id.index];
    if (!cost || cost->executions <= 0) return task;
    const double seconds = (cost->seconds - cost->spill_seconds) / cost->executions;
    const Node& node = graph_.node(id);
    if (cost->is_transfer && is_transfer(node)) {
      task = transfer(id, cost->transfer, seconds);
    } else {
      task.seconds = seconds;
      if (cost->is_transfer) task.stream = stream_of(cost->transfer.kind, cost->transfer.nodes);
    }
    task.tag = id.index;
    return task;
  }

  Task transfer(NodeId id, const TransferCost& cost, double seconds) {
    const Node& node = graph_.node(id);
    const Layout &from = program_.layout(node.operands[0]), &to = program_.layout(node.results[0]);
    const Type& type = graph_.operand_type(node, 0);
    const auto kind = step_kind_from_name(cost.kind);
    if (!kind) {
      Task task;
      task.seconds = seconds;
      task.stream = stream_of(cost.kind, cost.nodes);
      return task;
    }
    const auto [axes, is_new] = axes_.try_emplace(cost.axes);
    if (is_new)
      axes->second =
          axes_of(make_step(*kind, from.spec, to.spec, type.shape, type.dtype, profile_));
    const auto bytes = [&](const Layout& layout) {
      return static_cast<double>(num_elements(local_shape(layout.spec, type.shape)) *
                                 byte_size(type.dtype));
    };
    return collectives_->task(cost.kind, axes->second, seconds, bytes(from), bytes(to),
                              scattered(node.operands[0], bytes(from)));
  }

  // Over how many devices the step that made a value has scattered it.
  double scattered(ValueId value, double bytes) const {
    const NodeId maker = graph_.value(value).producer;
    if (!maker.valid() || !is_transfer(graph_.node(maker)) || bytes <= 0) return 1;
    const Node& before = graph_.node(maker);
    if (before.attrs.get_string("cleave.step") != name(CollectiveKind::ReduceScatter)) return 1;
    const Type& type = graph_.operand_type(before, 0);
    const Layout& layout = program_.layout(before.operands[0]);
    return static_cast<double>(num_elements(local_shape(layout.spec, type.shape)) *
                               byte_size(type.dtype)) /
           bytes;
  }

  // -1: an earlier stretch made it, or the caller did.
  int maker_of(ValueId value) const {
    const Maker& maker = made_by_[value.index];
    return maker.stretch == stretch_ ? maker.task : -1;
  }

  void add(NodeId id, Task task) {
    const Node& node = graph_.node(id);
    auto wait_for = [&](ValueId value) {
      if (const int maker = maker_of(value); maker >= 0) task.after.push_back(maker);
    };
    if (spilled_ >= 0) task.after.push_back(spilled_);
    for (ValueId operand : node.operands) wait_for(operand);
    for (ValueId captured : captured_values(graph_, node.regions)) wait_for(captured);
    sort_waits(task);
    std::vector<Task>& tasks = work_->stretches.back().tasks;
    for (ValueId result : node.results)
      made_by_[result.index] = {stretch_, static_cast<int>(tasks.size())};
    tasks.push_back(std::move(task));
  }

  const Program& program_;
  const Graph& graph_;
  const MachineProfile& profile_;
  const int64_t trips_;
  std::vector<const NodeCost*> cost_of_;  // by node
  std::vector<Maker> made_by_;            // by value
  std::map<std::string, AxisList> axes_;  // by their text
  CollectiveTasks* collectives_ = nullptr;
  Work* work_ = nullptr;
  int spilled_ = -1;   // the task that writes what the next one takes
  int stretch_ = 0;    // that is being filled
  int stretches_ = 0;  // that there are
};

bool is_sent(std::string_view kind) {
  return kind != "all_slice" && kind != "relabel" && !kind.ends_with("_to_unreduced");
}

}  // namespace

AxisList axes_of(const ReshardStep& step) { return step.links.empty() ? step.axes : step.links; }

Stream stream_of(std::string_view kind, int64_t nodes) {
  if (!is_sent(kind)) return Stream::Compute;
  return nodes > 1 ? Stream::Across : Stream::Inside;
}

const CollectiveTasks::Group& CollectiveTasks::group(std::string_view kind, const AxisList& axes,
                                                     double scattered) {
  const auto [it, is_new] = groups_.try_emplace({std::string(kind), axes, scattered});
  if (!is_new) return it->second;
  const GroupLinks links = group_links(*mesh_, axes, profile_);
  it->second = {stream_of(kind, links.nodes), -1};
  const auto collective = collective_kind_from_name(kind);
  if (!collective) return it->second;
  double limit = combine_limit(*collective, links.ranks, profile_.executor);
  // What a layer's gradients have left is summed as they were scattered: at once.
  const double layer = overlap_rules(profile_.executor).layer_bytes;
  if (scattered > 1 && *collective == CollectiveKind::AllReduce && layer > 0)
    limit = layer / scattered;
  if (limit > 0) {
    it->second.like = static_cast<int>(work_.like.size());
    work_.like.push_back({collective_cost(*collective, *mesh_, axes, profile_), limit});
  }
  return it->second;
}

Task CollectiveTasks::task(std::string_view kind, const AxisList& axes, double seconds,
                           double before, double after, double scattered) {
  const Group& like = group(kind, axes, scattered);
  Task task;
  task.stream = like.stream;
  task.seconds = seconds;
  if (like.stream == Stream::Compute) return task;
  task.grows = std::max(0.0, after - before);
  if (like.like < 0) return task;
  // Combined, it costs what its bytes add; that must be what it costs alone.
  task.bytes = std::max(before, after);
  const double alone = work_.like[like.like].cost.seconds(task.bytes);
  constexpr double kRounding = 1e-6;
  if (std::abs(alone - seconds) <= kRounding * seconds) task.like = like.like;
  return task;
}

StreamOptions stream_options(const MachineProfile& profile) {
  const OverlapRules rules = overlap_rules(profile.executor);
  return {.overlaps = rules.overlaps,
          .window = static_cast<int>(rules.kernels_ahead),
          .prefetch_bytes = rules.prefetch_share * profile.memory_bytes,
          .prepares_aside = rules.layer_bytes > 0,
          .slowdown = rules.overlaps ? profile.executor.overlap_slowdown : 0};
}

Schedule schedule(const Program& program, const ProgramCost& cost, const MachineProfile& profile,
                  int64_t trips) {
  const MachineProfile shared = shared_by(profile, program.mesh->num_devices());
  return lay_out(ProgramWork(program, cost, shared, trips).run(), stream_options(profile));
}

Schedule schedule(const Program& program, const MachineProfile& profile, int64_t trips) {
  return schedule(program, program_cost(program, profile, trips), profile, trips);
}

std::string to_string(const Schedule& schedule) {
  const double busy = schedule.busy[static_cast<size_t>(Stream::Compute)];
  const std::string slowed = schedule.slowed > 0 ? fmt::format(" and {} more beside collectives",
                                                               seconds_text(schedule.slowed))
                                                 : std::string();
  return fmt::format("step {}: {} compute{}, {} communication of which {} exposed",
                     seconds_text(schedule.seconds), seconds_text(busy - schedule.slowed), slowed,
                     seconds_text(schedule.communication()), seconds_text(schedule.exposed));
}

std::string timeline(const Schedule& schedule, const Program& program) {
  ChromeTrace trace;
  for (int s = 0; s < kNumStreams; ++s)
    trace.tracks.push_back({s, std::string(name(static_cast<Stream>(s)))});
  for (const StreamEvent& event : schedule.events) {
    const Node& node = program.graph.node({static_cast<uint32_t>(event.tag)});
    TraceEvent drawn{traced_name(node), static_cast<int64_t>(event.stream), event.start, event.end};
    if (!node.results.empty())
      drawn.args.emplace_back("type", to_string(program.graph.result_type(node)));
    if (is_transfer(node)) {
      drawn.args.emplace_back("axes", std::string(node.attrs.get_string("cleave.axes")));
      drawn.args.emplace_back("for", std::string(node.attrs.get_string("cleave.for")));
    }
    if (event.stream != Stream::Compute)
      drawn.args.emplace_back("exposed", seconds_text(event.exposed));
    if (event.executions != 1)
      drawn.args.emplace_back("executions", fmt::format("{:.0f}", event.executions));
    if (std::string line = source_line(node.location); !line.empty())
      drawn.args.emplace_back("location", std::move(line));
    trace.events.push_back(std::move(drawn));
  }
  for (const MoreTrips& more : schedule.more_trips)
    trace.events.push_back({fmt::format("{:.0f} more trips", more.trips),
                            static_cast<int64_t>(Stream::Compute), more.start, more.end});
  return to_json(trace);
}

}  // namespace cleave::analyze
