#include "cleave/xla/compiled_program.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/xla/hlo_text.h"

namespace cleave::xla {
namespace {

constexpr std::string_view kKinds[] = {
    "all-reduce",        "all-gather",         "reduce-scatter",      "all-to-all",
    "ragged-all-to-all", "collective-permute", "collective-broadcast"};

// The kind of an opcode, without -start; empty for others, and for -done and -update.
std::string_view kind_of(std::string_view opcode) {
  if (opcode.ends_with("-start")) opcode.remove_suffix(6);
  for (const std::string_view kind : kKinds)
    if (opcode == kind) return kind;
  return {};
}

std::string unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
  return std::string(text);
}

// metadata={op_name="jit(f)/dot" source_file="..."}
std::string op_name_of(std::string_view attributes) {
  const std::string_view metadata = attribute(attributes, "metadata");
  const size_t begin = metadata.find("op_name=\"");
  if (begin == std::string_view::npos) return "";
  size_t end = begin + 9;
  while (end < metadata.size() && metadata[end] != '"') end += metadata[end] == '\\' ? 2 : 1;
  return std::string(metadata.substr(begin + 9, std::min(end, metadata.size()) - begin - 9));
}

// "known_trip_count":{"n":"6"} of a loop's backend_config, in quotes or not.
std::optional<int64_t> trips_of(const HloInstruction& loop) {
  const std::string_view config = attribute(loop.attributes, "backend_config");
  size_t at = config.find("known_trip_count");
  if (at == std::string_view::npos) return std::nullopt;
  at = config.find_first_of("0123456789", at);
  int64_t trips = 0;
  if (at == std::string_view::npos ||
      std::from_chars(config.data() + at, config.data() + config.size(), trips).ec != std::errc())
    throw_user("HLO, line {}: the trip count of {} cannot be read", loop.line, loop.name);
  return trips;
}

int64_t sum(const std::vector<int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

// How often a collective runs when a computation runs once.
struct Runs {
  double executions = 0, counted = 0;
  bool in_branch = false, has_known_trips = true;
};
using RunsOf = std::map<size_t, Runs>;  // by collective

class CompiledReader {
 public:
  CompiledReader(const HloModule& module, const CompiledOptions& options)
      : module_(module), options_(options) {
    if (options.trips < 0) throw_user("trips {}: it must be 0 or more", options.trips);
    result_.name = module.name;
    result_.partitions = module.partitions;
    result_.replicas = module.replicas;
    const int64_t stated = module.partitions * module.replicas;
    if (stated == 1 && options.devices) result_.partitions = *options.devices;
    if (!module.states_devices && !options.devices) result_.partitions = 1 + largest_device();
    if (options.devices && stated != 1 && stated != *options.devices)
      throw_user("HloModule {} is for {} devices, and {} were given", module.name, stated,
                 *options.devices);
    if (result_.devices() < 1 || result_.devices() > (int64_t{1} << 20))
      throw_user("{} devices: 1 to 2^20 were expected", result_.devices());
  }

  CompiledProgram run() {
    const RunsOf runs = visit(module_.entry, 0);
    for (const auto& [index, run] : runs) {
      CompiledCollective& c = result_.collectives[index];
      c.executions = run.executions;
      c.counted = run.counted;
      c.in_branch = run.in_branch;
      c.has_known_trips = run.has_known_trips;
    }
    add_totals();
    read_memory();
    return std::move(result_);
  }

 private:
  // The largest number of a device in groups and pairs.
  int64_t largest_device() const {
    int64_t most = 0;
    for (const HloComputation& computation : module_.computations)
      for (const HloInstruction& op : computation.instructions) {
        if (kind_of(op.opcode).empty()) continue;
        for (const std::vector<int64_t>& group : replica_groups(op.attributes))
          for (const int64_t id : group) most = std::max(most, id);
        const std::string_view pairs = attribute(op.attributes, "source_target_pairs");
        if (pairs.empty()) continue;
        for (const auto& [from, to] : source_target_pairs(pairs)) most = std::max({most, from, to});
      }
    return most;
  }

  const RunsOf& visit(size_t index, int depth) {
    if (const auto done = visited_.find(index); done != visited_.end()) {
      if (!done->second) throw_user("HLO: computation %{} calls itself", name(index));
      return *done->second;
    }
    if (depth > 500) throw_user("HLO: computation %{} lies too deep", name(index));
    visited_.emplace(index, std::nullopt);
    RunsOf runs;
    const HloComputation& computation = module_.computations[index];
    std::unordered_map<std::string_view, const HloInstruction*> defined;
    for (const HloInstruction& instruction : computation.instructions) {
      defined.emplace(instruction.name, &instruction);
      if (const std::string_view kind = kind_of(instruction.opcode); !kind.empty())
        add(runs, read(instruction, kind, defined));
      else if (is_receive(instruction))
        add(runs, read_receive(instruction));
      else
        visit_calls(instruction, runs, depth);
    }
    std::optional<RunsOf>& slot = visited_[index];
    slot = std::move(runs);
    return *slot;
  }

  std::string_view name(size_t index) const { return module_.computations[index].name; }

  size_t find(std::string_view name, const HloInstruction& caller) const {
    const auto found = module_.by_name.find(name_of(name));
    if (found == module_.by_name.end())
      throw_user("HLO, line {}: {} calls {}, which the text does not have", caller.line,
                 caller.name, name);
    return found->second;
  }

  void visit_calls(const HloInstruction& op, RunsOf& runs, int depth) {
    if (op.opcode == "while") return visit_loop(op, runs, depth);
    if (op.opcode == "conditional") return visit_branches(op, runs, depth);
    if (op.opcode == "async-update" || op.opcode == "async-done") return;  // that of async-start
    for (const std::string_view attr : {"calls", "to_apply", "called_computations"}) {
      std::string_view callees = attribute(op.attributes, attr);
      if (callees.starts_with("{") && callees.ends_with("}"))
        callees = callees.substr(1, callees.size() - 2);
      if (callees.find('=') != std::string_view::npos) continue;  // written in place: a reducer
      for (const std::string_view callee : split_list(callees))
        add(runs, visit(find(callee, op), depth + 1), 1, true, op.opcode == "async-start");
    }
  }

  void visit_loop(const HloInstruction& op, RunsOf& runs, int depth) {
    const std::string_view body = attribute(op.attributes, "body");
    const std::string_view condition = attribute(op.attributes, "condition");
    if (body.empty() || condition.empty())
      throw_user("HLO, line {}: the loop {} has no body or no condition", op.line, op.name);
    const std::optional<int64_t> trips = trips_of(op);
    const double times = static_cast<double>(trips.value_or(options_.trips));
    const RunsOf& inside = visit(find(body, op), depth + 1);
    const RunsOf& asked = visit(find(condition, op), depth + 1);
    add(runs, inside, times, trips.has_value());
    add(runs, asked, times + 1, trips.has_value());
    if (!trips && !(inside.empty() && asked.empty())) result_.unknown_loops.emplace_back(op.name);
  }

  void visit_branches(const HloInstruction& op, RunsOf& runs, int depth) {
    std::vector<std::string_view> branches;
    std::string_view list = attribute(op.attributes, "branch_computations");
    if (list.size() > 2) branches = split_list(list.substr(1, list.size() - 2));
    for (const std::string_view attr : {"true_computation", "false_computation"})
      if (const std::string_view callee = attribute(op.attributes, attr); !callee.empty())
        branches.push_back(callee);
    if (branches.empty())
      throw_user("HLO, line {}: the condition {} has no branches", op.line, op.name);
    double most = -1;
    size_t dearest = 0;
    for (size_t i = 0; i < branches.size(); ++i) {
      double bytes = 0;
      for (const auto& [index, run] : visit(find(branches[i], op), depth + 1))
        bytes += run.counted * result_.collectives[index].received_bytes;
      if (bytes > most) dearest = i;
      most = std::max(most, bytes);
    }
    for (size_t i = 0; i < branches.size(); ++i) {
      RunsOf inside = visit(find(branches[i], op), depth + 1);
      for (auto& [index, run] : inside) {
        run.in_branch = true;
        if (i != dearest) run.counted = 0;
      }
      add(runs, inside, 1, true);
    }
  }

  void add(RunsOf& runs, const RunsOf& inside, double times, bool known, bool is_async = false) {
    for (const auto& [index, run] : inside) {
      Runs& sum = runs[index];
      sum.executions += times * run.executions;
      sum.counted += times * run.counted;
      sum.in_branch |= run.in_branch;
      sum.has_known_trips &= run.has_known_trips && known;
      result_.collectives[index].is_async |= is_async;
    }
  }

  void add(RunsOf& runs, CompiledCollective collective) {
    runs[result_.collectives.size()] = {1, 1, false, true};
    result_.collectives.push_back(std::move(collective));
  }

  // ---- one instruction

  CompiledCollective read(
      const HloInstruction& op, std::string_view kind,
      const std::unordered_map<std::string_view, const HloInstruction*>& defined) const {
    CompiledCollective c;
    c.kind = kind;
    c.name = op.name;
    c.op_name = op_name_of(op.attributes);
    c.is_async = op.opcode.ends_with("-start");
    std::vector<std::string_view> operands = split_list(op.operands);
    // Sends operand 0 into operand 1; the others are tables of where.
    c.is_at_most = kind == "ragged-all-to-all" || !attribute(op.attributes, "slice_sizes").empty();
    if (c.is_at_most && operands.size() > 1) operands = {operands[kind == "ragged-all-to-all"]};
    for (const std::string_view operand : operands) {
      const auto found = defined.find(name_of(operand));
      const bool has_type = operand.find('[') != std::string_view::npos;
      if (found == defined.end() && !has_type)
        throw_user("HLO, line {}: {} takes {}, which is not defined before it", op.line, op.name,
                   operand);
      c.operand_bytes += sum(array_bytes(
          found == defined.end() ? operand.substr(0, operand.rfind(' ')) : found->second->type));
    }
    if (kind == "collective-permute") {
      c.pairs = flattened(source_target_pairs(attribute(op.attributes, "source_target_pairs")), op);
      check_pairs(c.pairs, op);
    } else {
      c.groups = flattened(replica_groups(op.attributes), mode_of(op, kind), op);
    }
    c.received_bytes = received(c);
    return c;
  }

  static bool is_receive(const HloInstruction& op) {
    return op.opcode == "recv" && attribute(op.attributes, "is_host_transfer") != "true";
  }

  // A collective-permute that XLA has cut into send and recv.
  CompiledCollective read_receive(const HloInstruction& op) const {
    CompiledCollective c;
    c.kind = "send-recv";
    c.name = op.name;
    c.op_name = op_name_of(op.attributes);
    c.is_async = true;
    const std::vector<int64_t> arrays = array_bytes(op.type);
    c.operand_bytes = arrays.empty() ? 0 : arrays[0];
    std::string_view frontend = attribute(op.attributes, "frontend_attributes");
    if (frontend.size() > 2) frontend = frontend.substr(1, frontend.size() - 2);
    const std::string pairs = unquoted(attribute(frontend, "_xla_send_recv_source_target_pairs"));
    if (!pairs.empty()) {
      c.pairs = source_target_pairs(pairs);
      check_pairs(c.pairs, op);
    }
    c.is_at_most = pairs.empty();
    c.received_bytes = static_cast<double>(c.operand_bytes);
    return c;
  }

  // What the numbers of groups mean.
  enum class Mode : uint8_t { Replicas, Partitions, ReplicasOfAllPartitions, Devices };

  static Mode mode_of(const HloInstruction& op, std::string_view kind) {
    const std::string_view mode = attribute(op.attributes, "mode");
    if (mode == "cross_replica") return Mode::Replicas;
    if (mode == "cross_partition") return Mode::Partitions;
    if (mode == "cross_replica_and_partition") return Mode::ReplicasOfAllPartitions;
    if (mode == "flattened_id") return Mode::Devices;
    if (attribute(op.attributes, "channel_id").empty()) return Mode::Replicas;
    if (attribute(op.attributes, "use_global_device_ids") == "true") return Mode::Devices;
    const bool by_replicas =
        kind == "all-reduce" || kind == "all-gather" || kind == "reduce-scatter";
    return by_replicas ? Mode::ReplicasOfAllPartitions : Mode::Partitions;
  }

  DeviceGroups flattened(DeviceGroups groups, Mode mode, const HloInstruction& op) const {
    const int64_t p = result_.partitions, r = result_.replicas;
    const int64_t count = mode == Mode::Devices ? p * r : mode == Mode::Partitions ? p : r;
    if (groups.empty() || (groups.size() == 1 && groups[0].empty())) {
      groups.assign(1, std::vector<int64_t>(static_cast<size_t>(count)));
      std::iota(groups[0].begin(), groups[0].end(), 0);
    }
    for (const std::vector<int64_t>& group : groups)
      for (const int64_t id : group)
        if (id >= count && id < result_.devices())
          return flattened(std::move(groups), Mode::Devices, op);  // without the channel of devices
        else if (id >= count)
          throw_user(
              "HLO, line {}: {} names device {}, and there are {}; --devices says how many, if the "
              "text does not",
              op.line, op.name, id, count);
    if (mode == Mode::Devices) return groups;
    DeviceGroups flat;
    for (const std::vector<int64_t>& group : groups) {
      if (mode == Mode::ReplicasOfAllPartitions) {
        std::vector<int64_t>& all = flat.emplace_back();
        for (const int64_t replica : group)
          for (int64_t partition = 0; partition < p; ++partition)
            all.push_back(replica * p + partition);
        continue;
      }
      const bool by_replica = mode == Mode::Replicas;
      for (int64_t other = 0; other < (by_replica ? p : r); ++other) {
        std::vector<int64_t>& part = flat.emplace_back();
        for (const int64_t id : group) part.push_back(by_replica ? id * p + other : other * p + id);
      }
    }
    return flat;
  }

  // Pairs of partitions if there is a channel, else of replicas, and alike in all others.
  DevicePairs flattened(const DevicePairs& pairs, const HloInstruction& op) const {
    const bool by_partition = !attribute(op.attributes, "channel_id").empty();
    const int64_t p = result_.partitions, r = result_.replicas;
    for (const auto& [from, to] : pairs)
      if (std::max(from, to) >= (by_partition ? p : r)) return pairs;  // those of devices
    DevicePairs flat;
    for (int64_t other = 0; other < (by_partition ? r : p); ++other)
      for (const auto& [from, to] : pairs)
        flat.emplace_back(by_partition ? other * p + from : from * p + other,
                          by_partition ? other * p + to : to * p + other);
    return flat;
  }

  void check_pairs(const DevicePairs& pairs, const HloInstruction& op) const {
    for (const auto& [from, to] : pairs)
      if (std::max(from, to) >= result_.devices())
        throw_user(
            "HLO, line {}: {} names device {}, and there are {}; --devices says how many, if the "
            "text does not",
            op.line, op.name, std::max(from, to), result_.devices());
  }

  static double received(const CompiledCollective& c) {
    const double n = static_cast<double>(c.group_size());
    const double bytes = static_cast<double>(c.operand_bytes);
    if (n <= 1) return 0;
    if (c.kind == "all-reduce") return 2 * bytes * (n - 1) / n;
    if (c.kind == "all-gather") return bytes * (n - 1);
    if (c.kind == "reduce-scatter" || c.kind == "all-to-all") return bytes * (n - 1) / n;
    return bytes;
  }

  // ---- the whole

  void add_totals() {
    std::map<std::pair<std::string, DeviceGroups>, CompiledTotal> sums;
    for (const CompiledCollective& c : result_.collectives) {
      if (c.counted == 0) continue;
      const DeviceGroups by_pairs = {{c.group_size()}};  // those that move, and those that do not
      CompiledTotal& total = sums[{c.kind, c.pairs.empty() ? c.groups : by_pairs}];
      total.kind = c.kind;
      total.groups = c.groups;
      total.group_size = c.group_size();
      total.executions += c.counted;
      total.received_bytes += c.counted * c.received_bytes;
    }
    for (auto& [key, total] : sums) result_.totals.push_back(std::move(total));
    std::stable_sort(result_.totals.begin(), result_.totals.end(),
                     [](const CompiledTotal& a, const CompiledTotal& b) {
                       return a.received_bytes > b.received_bytes;
                     });
  }

  void read_memory() {
    CompiledMemory& memory = result_.memory;
    memory.temporaries = options_.temporaries;
    std::vector<int64_t> results;
    for (const HloInstruction& op : module_.entry_computation().instructions) {
      if (op.opcode == "parameter") memory.arguments += sum(array_bytes(op.type));
      if (op.is_root) results = array_bytes(op.type);
    }
    memory.results = sum(results);
    // input_output_alias={ {0}: (1, {}, may-alias), {}: (0, {}) }: by the index of a result.
    std::string_view aliases = attribute(module_.header, "input_output_alias");
    if (aliases.size() < 2) return;
    for (const std::string_view alias : split_list(aliases.substr(1, aliases.size() - 2))) {
      size_t index = 0;
      const char* begin = alias.data() + 1;
      const bool is_tuple =
          std::from_chars(begin, alias.data() + alias.size(), index).ec == std::errc();
      if (is_tuple || results.size() == 1)
        memory.aliased += index < results.size() ? results[index] : 0;
    }
  }

  const HloModule& module_;
  const CompiledOptions& options_;
  CompiledProgram result_;
  // By computation; nullopt while it is being visited. Addresses of entries are stable.
  std::map<size_t, std::optional<RunsOf>> visited_;
};

}  // namespace

int64_t CompiledCollective::group_size() const {
  if (!pairs.empty())
    return std::any_of(pairs.begin(), pairs.end(),
                       [](auto pair) { return pair.first != pair.second; })
               ? 2
               : 1;
  size_t most = kind == "send-recv" ? 2 : 1;
  for (const std::vector<int64_t>& group : groups) most = std::max(most, group.size());
  return static_cast<int64_t>(most);
}

double CompiledProgram::received_bytes() const {
  double bytes = 0;
  for (const CompiledTotal& total : totals) bytes += total.received_bytes;
  return bytes;
}

CompiledProgram read_compiled(std::string_view text, const CompiledOptions& options) {
  const HloModule module = parse_hlo(text);
  return CompiledReader(module, options).run();
}

}  // namespace cleave::xla
