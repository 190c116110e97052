#include "cleave/report/change_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::report {
namespace {

constexpr std::initializer_list<const char*> kChangeColumns = {
    "kind",   "axes", "bytes", "seconds", "times", "exposed", "hidden", "op",
    "source", "type", "from",  "to",      "line",  "reason",  "stream", "group"};

class Changes {
 public:
  Changes(const PlannedProgram& planned, ReportTables& tables, GroupRows& groups)
      : planned_(planned),
        plan_(planned.plan),
        program_(planned.program),
        tables_(tables),
        groups_(groups),
        rows_(kChangeColumns),
        users_(planned.plan.copies.size()) {
    table_.of_node.assign(program_.graph.num_nodes(), -1);
    find_users();
    find_times();
  }

  ChangeTable run() {
    program_.graph.walk(program_.entry_function().body, [&](NodeId id) {
      if (planned_.is_change(id)) add(id);
    });
    table_.rows = rows_.take();
    return std::move(table_);
  }

 private:
  // Of every copy the ops that take it, or a copy of it.
  void find_users() {
    for (size_t o = 0; o < plan_.ops.size(); ++o)
      for (const plan::BoundSource& source : planned_.bound.ops[o].operands)
        if (source.copy >= 0) users_[static_cast<size_t>(source.copy)].push_back(o);
    for (size_t c = plan_.copies.size(); c-- > 0;) {
      const int from = planned_.bound.copies[c].source.copy;
      if (from < 0) continue;
      std::vector<size_t>& users = users_[static_cast<size_t>(from)];
      users.insert(users.end(), users_[c].begin(), users_[c].end());
      std::sort(users.begin(), users.end());
    }
  }

  void find_times() {
    exposed_.assign(program_.graph.num_nodes(), 0);
    busy_.assign(program_.graph.num_nodes(), 0);
    for (const analyze::StreamEvent& event : planned_.schedule.events) {
      if (event.stream == analyze::Stream::Compute) continue;
      exposed_[static_cast<size_t>(event.tag)] += event.exposed * event.executions;
      busy_[static_cast<size_t>(event.tag)] += (event.end - event.start) * event.executions;
    }
  }

  void add(NodeId id) {
    const Node& node = program_.graph.node(id);
    const analyze::NodeCost* cost = planned_.cost_of(id);
    const int number = planned_.change_of(id);
    const PlannedChange* change =
        number >= 0 ? &planned_.changes[static_cast<size_t>(number)] : nullptr;
    const int op = change ? asking(*change) : planned_.op_of(id);
    const bool is_step = is_transfer(node);
    const std::string kind =
        is_step ? std::string(node.attrs.get_string("cleave.step")) : cost->transfer.kind;
    const std::string axes =
        is_step ? std::string(node.attrs.get_string("cleave.axes")) : cost->transfer.axes;
    const bool runs = cost && cost->executions > 0;
    const double times = runs ? cost->executions : change ? change->times : 1;
    const double seconds = runs ? (cost->seconds - cost->spill_seconds) / times : 0;
    const ShardingSpec &from = program_.layout(node.operands[0]).spec,
                       &to = program_.layout(node.results[0]).spec;
    const Type& type = program_.graph.operand_type(node, 0);
    const auto stream = analyze::stream_of(kind, cost ? cost->transfer.nodes : 1);
    table_.of_node[id.index] = static_cast<int>(rows_.size("kind"));
    rows_.add("kind", tables_.string(kind));
    rows_.add("axes", tables_.string(axes));
    rows_.add("bytes", cost ? cost->transfer.bytes : 0);
    rows_.add("seconds", rounded(seconds));
    rows_.add("times", times);
    rows_.add("exposed", rounded(exposed_[id.index]));
    rows_.add("hidden", rounded(std::max(0.0, busy_[id.index] - exposed_[id.index])));
    rows_.add("op", op == planned_.end ? -1 : op);
    rows_.add("source", change ? source_json(planned_.source_of(change->source.value)) : Json(op));
    rows_.add("type", tables_.type(type));
    rows_.add("from", is_step ? tables_.spec(from) : -1);
    rows_.add("to", is_step ? tables_.spec(to) : -1);
    rows_.add("line", tables_.string(planned_.line_of(op)));
    rows_.add("reason", tables_.string(change ? reason(*change) : reason_inside(op, is_step)));
    rows_.add("stream", static_cast<int>(stream));
    const std::string user = op < 0 ? "" : kind_of(plan_.ops[static_cast<size_t>(op)].op);
    rows_.add("group", group(kind, axes, user, op, to_string(type),
                             is_step ? to_string(from) + " -> " + to_string(to) : "", times,
                             seconds * times));
    if (runs && cost->spill_seconds > 0)
      groups_.add("write and read for " + kind, op, to_string(type), to_string(from), times,
                  cost->spill_seconds);
  }

  int group(const std::string& kind, const std::string& axes, const std::string& user, int op,
            const std::string& type, const std::string& layouts, double times, double seconds) {
    if (seconds <= 0) return -1;
    return groups_.add(fmt::format("{}{}{}{}{}", kind, axes.empty() ? "" : " ", axes,
                                   user.empty() ? "" : " for ", user),
                       op, type, layouts, times, seconds);
  }

  // The op for which a change is made; of a copy the first that takes it.
  int asking(const PlannedChange& change) const {
    if (change.copy < 0) return change.op;
    const std::vector<size_t>& users = users_[static_cast<size_t>(change.copy)];
    return users.empty() ? change.op : static_cast<int>(users.front());
  }

  std::string maker(const PlannedChange& change) const {
    const PlannedProgram::Source source = planned_.source_of(change.source.value);
    if (source.argument >= 0) return plan_.values[static_cast<size_t>(source.argument)].name;
    return source.op >= 0 ? plan_.ops[static_cast<size_t>(source.op)].name : "a value";
  }

  // Who asks for it, and what for.
  std::string reason(const PlannedChange& change) const {
    const ShardingSpec& lies = planned_.bound.spec(change.source);
    std::string who;
    const int op = asking(change);
    const size_t users = change.copy < 0 ? 1 : users_[static_cast<size_t>(change.copy)].size();
    if (op < 0)
      who = "it is wanted";
    else if (op == planned_.end)
      who = "the step returns it";
    else
      who = fmt::format("{} takes it", plan_.ops[static_cast<size_t>(op)].name);
    if (users > 1) who += fmt::format(", with {} more", users - 1);
    std::string text = fmt::format("{} lies as {}, and {} as {}", maker(change), to_string(lies),
                                   who, to_string(change.to));
    if (lies.is_partial() && !change.to.is_partial())
      text += fmt::format(": the {} over {} is completed", name(lies.partial_op),
                          to_string(lies.partial, *plan_.mesh));
    return text;
  }

  std::string reason_inside(int op, bool is_step) const {
    const std::string where = op < 0 ? "the program" : plan_.ops[static_cast<size_t>(op)].name;
    return is_step ? fmt::format("{} needs it inside", where)
                   : fmt::format("the module asks for it inside {}", where);
  }

  const PlannedProgram& planned_;
  const Plan& plan_;
  const Program& program_;
  ReportTables& tables_;
  GroupRows& groups_;
  Columns rows_;
  std::vector<std::vector<size_t>> users_;  // by copy
  std::vector<double> exposed_, busy_;      // by node
  ChangeTable table_;
};

}  // namespace

ChangeTable change_rows(const PlannedProgram& planned, ReportTables& tables, GroupRows& groups) {
  return Changes(planned, tables, groups).run();
}

Json empty_change_rows() { return Columns(kChangeColumns).take(); }

Json schedule_rows(const PlannedProgram& planned, const ChangeTable& changes) {
  const analyze::Schedule& schedule = planned.schedule;
  Columns events(
      {"stream", "start", "length", "op", "change", "executions", "exposed", "critical"});
  for (const analyze::StreamEvent& event : schedule.events) {
    const NodeId node{static_cast<uint32_t>(event.tag)};
    events.add("stream", static_cast<int>(event.stream));
    events.add("start", rounded(event.start));
    events.add("length", rounded(event.end - event.start));
    const int change = changes.of_node[node.index];
    events.add("op", change < 0 ? planned.op_of(node) : -1);
    events.add("change", change);
    events.add("executions", event.executions);
    events.add("exposed", rounded(event.exposed));
    events.add("critical", event.is_critical ? 1 : 0);
  }
  Json more = Json::array();
  for (const analyze::MoreTrips& again : schedule.more_trips)
    more.push_back(
        {{"start", rounded(again.start)}, {"end", rounded(again.end)}, {"trips", again.trips}});
  Json busy = Json::array(), streams = Json::array();
  for (int s = 0; s < analyze::kNumStreams; ++s) {
    streams.push_back(std::string(name(static_cast<analyze::Stream>(s))));
    busy.push_back(rounded(schedule.busy[static_cast<size_t>(s)]));
  }
  return {{"seconds", rounded(schedule.seconds)},
          {"streams", std::move(streams)},
          {"busy", std::move(busy)},
          {"slowed", rounded(schedule.slowed)},
          {"exposed", rounded(schedule.exposed)},
          {"events", events.take()},
          {"more", std::move(more)}};
}

}  // namespace cleave::report
