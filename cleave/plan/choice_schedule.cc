#include "cleave/plan/choice_schedule.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "cleave/graph/flow.h"
#include "cleave/ops/control/trip_count.h"

namespace cleave::plan {

using analyze::Stream;
using analyze::Task;
using analyze::Work;

ChoiceSchedules::ChoiceSchedules(const Graph& flat, const std::string& entry,
                                 const Formulation& formulation, Layouts& layouts, int64_t trips)
    : flat_(flat),
      body_(flat.find_function(entry)->body),
      formulation_(formulation),
      layouts_(layouts),
      trips_(trips),
      options_(analyze::stream_options(layouts.profile())),
      op_of_(flat.num_nodes(), -1),
      waits_of_(formulation.ops.size()),
      copies_before_(flat.num_nodes()),
      copies_after_(flat.num_nodes()),
      collectives_(layouts.mesh(), layouts.profile(), groups_) {
  bool has_flow = false;
  for (size_t o = 0; o < formulation.ops.size(); ++o) {
    const FormulatedOp& op = formulation.ops[o];
    op_of_[op.node.index] = static_cast<int>(o);
    for (int version : op.operands) waits_of_[o].push_back({version, -1});
    const Node& node = flat.node(op.node);
    const bool is_flow = flow_of(node) == Flow::Loop || flow_of(node) == Flow::Branches;
    has_flow = has_flow || is_flow;
    is_exact_ = is_exact_ && flow_of(node) != Flow::Manual &&
                (is_flow || captured_values(flat, node.regions).empty());
  }
  find_demands();
  find_ends();
  find_seconds();
  find_silent();
  find_shown(body_);
  // After a loop, everything before it is there. All values count as early then, which is safe.
  is_early_.assign(flat.num_values(), has_flow);
  for (ValueId arg : flat.region(body_).args) is_early_[arg.index] = true;
  for (const FormulatedOp& op : formulation.ops) {
    const Node& node = flat.node(op.node);
    if (has_flow) break;
    const bool is_early = std::all_of(node.operands.begin(), node.operands.end(),
                                      [&](ValueId operand) { return is_early_[operand.index]; });
    for (ValueId result : node.results) is_early_[result.index] = is_early;
  }
  std::unordered_map<std::string, int> numbers;
  for (size_t v = 0; v < formulation.versions.size(); ++v) {
    const Type& type = formulation.type(static_cast<int>(v));
    std::string key(reinterpret_cast<const char*>(type.shape.data()),
                    type.shape.size() * sizeof(int64_t));
    key += static_cast<char>(type.dtype);
    type_of_.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
}

void ChoiceSchedules::find_demands() {
  for (size_t d = 0; d < formulation_.demands.size(); ++d) {
    const Demand& demand = formulation_.demands[d];
    const int id = static_cast<int>(d);
    if (demand.op >= 0) {
      waits_of_[demand.op][demand.operand].demand = id;
      continue;
    }
    const Version& copy = formulation_.versions[demand.copy];
    const Value& value = flat_.value(copy.value);
    if (copy.before.valid())
      copies_before_[copy.before.index].push_back(id);
    else if (value.producer.valid())
      copies_after_[value.producer.index].push_back(id);
    else
      at_start_[value.region.index].push_back(id);
  }
  // In the order in which a plan lists them.
  auto sort = [&](std::vector<int>& list) {
    std::sort(list.begin(), list.end(), [&](int a, int b) {
      return formulation_.demands[a].copy < formulation_.demands[b].copy;
    });
  };
  for (std::vector<int>& list : copies_before_) sort(list);
  for (std::vector<int>& list : copies_after_) sort(list);
  for (auto& [region, list] : at_start_) sort(list);
}

void ChoiceSchedules::find_ends() {
  for (const Demand& demand : formulation_.demands) {
    const Version& from = formulation_.versions[demand.version];
    Ends ends{formulation_.list(from.list).data(),
              formulation_.list(demand.list).data(),
              from.decision,
              demand.decision,
              demand.version,
              demand.branch,
              from.spill_bytes > 0};
    if (demand.op < 0) {
      const Version& copy = formulation_.versions[demand.copy];
      ends.to = formulation_.list(copy.list).data();
      ends.to_decision = copy.decision;
    }
    ends_.push_back(ends);
  }
  for (const FormulatedOp& op : formulation_.ops) {
    std::vector<int>& makes = makes_.emplace_back();
    for (ValueId result : flat_.node(op.node).results)
      if (const int version = formulation_.definitions[result.index]; version >= 0)
        makes.push_back(version);
  }
}

// Ops of one kind that are decided on in the same way share their seconds.
void ChoiceSchedules::find_seconds() {
  struct Known {
    const std::vector<int32_t>* pick;
    int at;
  };
  std::unordered_map<const StrategySet*, std::vector<Known>> known;
  for (const FormulatedOp& op : formulation_.ops) {
    const int next = static_cast<int>(seconds_.size());
    if (!op.set) {
      seconds_at_.push_back(next);
      seconds_.emplace_back(formulation_.decisions[op.decision].count, op.fixed.compute_seconds);
      continue;
    }
    std::vector<Known>& list = known[op.set];
    const auto same = std::find_if(list.begin(), list.end(),
                                   [&](const Known& other) { return *other.pick == op.pick; });
    seconds_at_.push_back(same == list.end() ? next : same->at);
    if (same != list.end()) continue;
    list.push_back({&op.pick, next});
    std::vector<double>& seconds = seconds_.emplace_back();
    for (int32_t pick : op.pick) seconds.push_back(op.set->list[pick].seconds);
  }
}

// Most ops are parts of kernels of others: they take no time in any choice. One that waits for one
// value at most, as it is, is there when that is; so nothing of it has to be laid out.
void ChoiceSchedules::find_silent() {
  std::vector<bool> is_there(formulation_.versions.size(), false);
  same_as_.resize(formulation_.versions.size());
  std::iota(same_as_.begin(), same_as_.end(), 0);
  for (size_t o = 0; o < formulation_.ops.size(); ++o) {
    const FormulatedOp& op = formulation_.ops[o];
    std::vector<Wait>& waits = waits_of_[o];
    for (Wait& wait : waits) {
      if (wait.demand >= 0 && !ends_[wait.demand].differ()) wait.demand = -1;
      if (wait.demand < 0) wait.version = same_as_[wait.version];
    }
    std::erase_if(waits,
                  [&](const Wait& wait) { return wait.demand < 0 && is_there[wait.version]; });
    if (waits.size() > 1 || (waits.size() == 1 && waits[0].demand >= 0)) continue;
    const std::vector<double>& seconds = seconds_[seconds_at_[o]];
    const bool takes_time =
        !op.fixed.collectives.empty() ||
        std::any_of(seconds.begin(), seconds.end(), [](double s) { return s > 0; });
    if (takes_time || flow_of(flat_.node(op.node)) != Flow::None) continue;
    op_of_[op.node.index] = -1;
    for (int version : makes_[o]) {
      if (waits.empty())
        is_there[version] = true;
      else
        same_as_[version] = waits[0].version;
    }
  }
  for (Ends& ends : ends_) ends.version = same_as_[ends.version];
}

ChoiceSchedules::Shown ChoiceSchedules::shown_op(int id) {
  const FormulatedOp& op = formulation_.ops[id];
  Shown shown{Shown::Op, id, op.decision, op.branch, seconds_[seconds_at_[id]].data()};
  for (const CollectiveTotal& total : op.fixed.collectives) shown.sent += total.seconds;
  shown.first_wait = static_cast<int>(waits_.size());
  shown.num_waits = static_cast<int>(waits_of_[id].size());
  waits_.insert(waits_.end(), waits_of_[id].begin(), waits_of_[id].end());
  shown.first_made = static_cast<int>(made_.size());
  shown.num_made = static_cast<int>(makes_[id].size());
  made_.insert(made_.end(), makes_[id].begin(), makes_[id].end());
  return shown;
}

void ChoiceSchedules::find_shown(RegionId region) {
  std::vector<Shown> all;
  const auto add_copies = [&](const std::vector<int>& demands) {
    for (int id : demands) {
      Shown& shown = all.emplace_back(Shown{Shown::Copy, id});
      shown.branch = ends_[id].branch;
      shown.first_made = static_cast<int>(made_.size());
      shown.num_made = 1;
      made_.push_back(formulation_.demands[id].copy);
    }
  };
  if (const auto it = at_start_.find(region.index); it != at_start_.end()) add_copies(it->second);
  for (NodeId id : flat_.region(region).nodes) {
    const Node& node = flat_.node(id);
    const Flow flow = flow_of(node);
    add_copies(copies_before_[id.index]);
    if (op_of_[id.index] >= 0) all.push_back(shown_op(op_of_[id.index]));
    if (flow == Flow::Loop || flow == Flow::Branches) {
      for (RegionId inner : node.regions) find_shown(inner);
      all.push_back({Shown::Regions, static_cast<int>(id.index)});
    }
    add_copies(copies_after_[id.index]);
  }
  shown_[region.index] = std::move(all);
}

const std::vector<Task>& ChoiceSchedules::steps(SpecId from, SpecId to, int version) {
  const std::lock_guard lock(mutex_);
  auto [it, is_new] = steps_.try_emplace({from, to, type_of_[version]});
  if (!is_new) return it->second;
  const Type& type = formulation_.type(version);
  double before = static_cast<double>(layouts_.bytes(from, type)), scattered = 1;
  for (const ReshardStep& step : layouts_.plan(from, to, type).steps) {
    const double after = static_cast<double>(layouts_.bytes(layouts_.intern(step.after), type));
    it->second.push_back(collectives_.task(name(step.kind), analyze::axes_of(step), step.seconds,
                                           before, after, scattered));
    scattered = step.kind == StepKind::ReduceScatter && after > 0 ? before / after : 1;
    before = after;
  }
  return it->second;
}

double ChoiceSchedules::spill(int version, const std::vector<int>& choice) {
  if (formulation_.versions[version].spill_bytes <= 0) return 0;
  const std::lock_guard lock(mutex_);
  return formulation_.spill_seconds(version, choice[formulation_.versions[version].decision],
                                    layouts_);
}

// What is laid out for one choice.
class ChoiceSchedules::Filling {
 public:
  Filling(ChoiceSchedules& all, const std::vector<int>& choice)
      : all_(all), choice_(choice), made_by_(all.formulation_.versions.size(), {-1, -1}) {}

  Work run() {
    Work work;
    work_ = &work;
    begin_stretch();
    work.stretches.back().tasks.reserve(all_.most_tasks_);
    region(all_.body_);
    all_.most_tasks_ = std::max<size_t>(all_.most_tasks_, work.stretches.front().tasks.size());
    return work;
  }

 private:
  void region(RegionId id);
  void regions(NodeId id);
  void between(NodeId id, const std::vector<std::pair<RegionId, double>>& parts);
  void add_copy(const Shown& copy);
  void add_op(const Shown& op);
  // Returns the task after which the value is there.
  int add_reshard(int demand, double weight);
  double weight(int branch) const { return branch < 0 ? 1 : all_.formulation_.weight(branch); }
  // A task that waits for one at most.
  int add(Task task);
  // A task that may wait for several. Returns the task after which its result is there.
  int add_waiting(Task task);
  void begin_stretch();
  int maker(int version) const;

  ChoiceSchedules& all_;
  const std::vector<int>& choice_;
  Work* work_ = nullptr;
  int stretch_ = 0, stretches_ = 0;
  std::vector<std::pair<int, int>> made_by_;  // by version: stretch and task
};

void ChoiceSchedules::Filling::begin_stretch() {
  work_->stretches.emplace_back();
  stretch_ = ++stretches_;
}

void ChoiceSchedules::Filling::region(RegionId id) {
  for (const Shown& shown : all_.shown_.at(id.index)) {
    if (shown.kind == Shown::Op)
      add_op(shown);
    else if (shown.kind == Shown::Copy)
      add_copy(shown);
    else
      regions({static_cast<uint32_t>(shown.id)});
  }
}

void ChoiceSchedules::Filling::regions(NodeId id) {
  const Node& node = all_.flat_.node(id);
  if (flow_of(node) == Flow::Loop) {
    const LoopRegions parts = *loop_of(node);
    const auto trips = static_cast<double>(trip_count(all_.flat_, node).value_or(all_.trips_));
    between(id, {{parts.condition, trips + 1}, {parts.body, trips}});
  } else if (flow_of(node) == Flow::Branches) {
    std::vector<std::pair<RegionId, double>> parts;
    for (RegionId branch : node.regions) parts.emplace_back(branch, 1);
    between(id, parts);
  }
}

// As in analyze/schedule.cc: regions that take time stand between stretches.
void ChoiceSchedules::Filling::between(NodeId id,
                                       const std::vector<std::pair<RegionId, double>>& parts) {
  bool takes_time = false;
  for (const auto& [part, times] : parts) {
    if (times <= 0) continue;
    Work* const outer = work_;
    const int stretch = stretch_;
    Work inner;
    work_ = &inner;
    begin_stretch();
    region(part);
    work_ = outer;
    stretch_ = stretch;
    if (!analyze::takes_time(inner)) continue;
    takes_time = true;
    work_->stretches.back().inner = static_cast<int>(work_->inners.size());
    work_->stretches.back().times = times;
    work_->inners.push_back(std::move(inner));
    begin_stretch();
  }
  if (!takes_time) return;
  for (ValueId result : all_.flat_.node(id).results)
    if (const int version = all_.formulation_.definitions[result.index]; version >= 0)
      made_by_[version] = {-1, -1};
}

int ChoiceSchedules::Filling::maker(int version) const {
  const auto [stretch, task] = made_by_[version];
  return stretch == stretch_ ? task : -1;
}

int ChoiceSchedules::Filling::add_waiting(Task task) {
  analyze::sort_waits(task);
  // What takes no time is there when what it waits for is.
  if (task.seconds <= 0 && task.after.size() <= 1) return task.after.empty() ? -1 : task.after[0];
  return add(std::move(task));
}

int ChoiceSchedules::Filling::add(Task task) {
  std::vector<Task>& tasks = work_->stretches.back().tasks;
  tasks.push_back(std::move(task));
  return static_cast<int>(tasks.size()) - 1;
}

int ChoiceSchedules::Filling::add_reshard(int id, double weight) {
  const Ends& ends = all_.ends_[id];
  const SpecId from = ends.from[choice_[ends.from_decision]],
               to = ends.to[choice_[ends.to_decision]];
  int last = maker(ends.version);
  if (from == to || from == kNoSpec || to == kNoSpec || weight == 0) return last;
  const int version = all_.formulation_.demands[id].version;
  const double spill = ends.spills ? all_.spill(version, choice_) : 0;
  const auto follow = [&](Task task) {
    task.tag = id;
    if (last >= 0) task.after.push_back(last);
    last = add(std::move(task));
  };
  if (spill > 0) {
    Task task;
    task.seconds = spill;
    follow(std::move(task));
  }
  for (const Task& task : all_.steps(from, to, version)) follow(task);
  return last;
}

void ChoiceSchedules::Filling::add_copy(const Shown& copy) {
  const int task = add_reshard(copy.id, weight(copy.branch));
  made_by_[all_.made_[copy.first_made]] = {stretch_, task};
}

void ChoiceSchedules::Filling::add_op(const Shown& op) {
  const double weight = this->weight(op.branch);
  Task task;
  for (int w = op.first_wait; w < op.first_wait + op.num_waits; ++w) {
    const Wait& wait = all_.waits_[w];
    const int before = wait.demand < 0 ? maker(wait.version) : add_reshard(wait.demand, weight);
    if (before >= 0) task.after.push_back(before);
  }
  if (weight > 0) task.seconds = op.seconds[choice_[op.decision]];
  int last = add_waiting(std::move(task));
  if (op.sent > 0 && weight > 0) {
    Task communication;
    communication.seconds = op.sent;
    communication.stream = Stream::Inside;
    if (last >= 0) communication.after.push_back(last);
    last = add(std::move(communication));
  }
  for (int m = op.first_made; m < op.first_made + op.num_made; ++m)
    made_by_[all_.made_[m]] = {stretch_, last};
}

Work ChoiceSchedules::work(const std::vector<int>& choice) {
  Work work = Filling(*this, choice).run();
  const std::lock_guard lock(mutex_);
  work.like = groups_.like;
  return work;
}

std::vector<double> ChoiceSchedules::compute_shares(double aside) const {
  std::vector<double> shares;
  if (!options_.prepares_aside) return shares;
  for (const FormulatedOp& op : formulation_.ops) {
    const std::vector<ValueId>& results = flat_.node(op.node).results;
    shares.push_back(!results.empty() && is_early_[results[0].index] ? aside : 1);
  }
  return shares;
}

std::vector<double> ChoiceSchedules::closeness(const std::vector<int>& choice,
                                               const analyze::StreamSchedule& schedule) const {
  double sent = 0;
  int count = 0;
  for (const analyze::StreamEvent& event : schedule.events)
    if (event.tag >= 0) {
      sent += event.end - event.start;
      ++count;
    }
  const double typical = count > 0 ? sent / count : 0;
  // Seconds that are computed before each position.
  std::vector<double> until(formulation_.end() + 2, 0.0), share(formulation_.demands.size(), 1.0);
  for (size_t o = 0; o < formulation_.ops.size(); ++o)
    until[formulation_.ops[o].position + 1] += seconds_of(o, choice);
  for (size_t p = 1; p < until.size(); ++p) until[p] += until[p - 1];
  for (size_t d = 0; d < share.size() && typical > 0; ++d) {
    const Demand& demand = formulation_.demands[d];
    const Version& version = formulation_.versions[demand.version];
    const int wanted = demand.op >= 0 ? formulation_.ops[demand.op].position
                                      : formulation_.versions[demand.copy].first;
    const double between = until[std::max(wanted, version.first)] - until[version.first + 1];
    share[d] = std::clamp(1 - between / typical, 0.0, 1.0);
  }
  return share;
}

std::vector<double> ChoiceSchedules::critical_shares(
    const analyze::StreamSchedule& schedule) const {
  std::vector<double> critical(formulation_.demands.size(), 0.0), all(critical);
  for (const analyze::StreamEvent& event : schedule.events) {
    if (event.tag < 0) continue;
    const double length = event.end - event.start;
    all[event.tag] += length;
    if (event.is_critical) critical[event.tag] += length;
  }
  for (size_t d = 0; d < all.size(); ++d) critical[d] = all[d] > 0 ? critical[d] / all[d] : -1;
  return critical;
}

std::vector<double> ChoiceSchedules::scheduled_shares(const std::vector<int>& choice,
                                                      const analyze::StreamSchedule& schedule) {
  constexpr double kNone = -1;
  std::vector<double> shares(formulation_.demands.size(), kNone);
  for (const analyze::StreamEvent& event : schedule.events) {
    if (event.tag < 0) continue;
    double& share = shares[event.tag];
    share = std::max(0.0, share) + (event.is_critical ? event.end - event.start : 0);
  }
  for (size_t d = 0; d < shares.size(); ++d) {
    const Demand& demand = formulation_.demands[d];
    if (shares[d] == kNone) {
      shares[d] = 1;
      continue;
    }
    const SpecId from = formulation_.spec(demand.version, choice);
    const SpecId to = demand.copy >= 0 ? formulation_.spec(demand.copy, choice)
                                       : formulation_.list(demand.list)[choice[demand.decision]];
    double alone = spill(demand.version, choice);
    for (const Task& task : steps(from, to, demand.version)) alone += task.seconds;
    shares[d] = alone > 0 ? std::min(1.0, shares[d] / alone) : 1;
  }
  return shares;
}

std::vector<double> ChoiceSchedules::criticality(const std::vector<int>& choice,
                                                 const analyze::StreamSchedule& schedule,
                                                 bool is_hopeful) const {
  const std::vector<double> found = critical_shares(schedule);
  std::vector<double> share =
      is_hopeful ? closeness(choice, schedule) : std::vector<double>(found.size(), 1.0);
  for (size_t d = 0; d < share.size(); ++d)
    if (found[d] >= 0) share[d] = found[d];
  return share;
}

}  // namespace cleave::plan
