#include "cleave/plan/explain_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <span>

#include "cleave/analyze/memory_classes.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/plan/layouts.h"

namespace cleave::plan {
namespace {

std::string spec_text(const ShardingSpec& spec) { return spec.mesh ? to_string(spec) : "-"; }

class Grouper {
 public:
  Grouper(const BoundPlan& bound, const MachineProfile& profile)
      : bound_(bound),
        plan_(bound.plan),
        flat_(bound.flat),
        resharder_(shared_by(profile, plan_.mesh->num_devices()),
                   reshard_options(*plan_.mesh, plan_.parts)) {}

  std::vector<CostGroup> run() {
    for (size_t o = 0; o < plan_.ops.size(); ++o) {
      const PlannedOp& op = plan_.ops[o];
      const BoundOp& bound = bound_.ops[o];
      const Node& node = flat_.node(bound.node);
      add_op(op, node);
      for (size_t i = 0; i < op.operands.size(); ++i)
        add_move(bound_.spec(bound.operands[i]), op.operands[i].spec, flat_.operand_type(node, i),
                 op.op, op.name, op.times);
    }
    for (size_t c = 0; c < plan_.copies.size(); ++c) add_copy(plan_.copies[c], bound_.copies[c]);
    std::vector<CostGroup> list;
    for (auto& [key, group] : groups_) list.push_back(std::move(group));
    std::stable_sort(list.begin(), list.end(),
                     [](const CostGroup& a, const CostGroup& b) { return a.seconds > b.seconds; });
    return list;
  }

 private:
  static std::string kind_of(const std::string& op) { return op.substr(op.find('.') + 1); }

  void add(CostGroup group) {
    const std::string key = group.what + "|" + group.type + "|" + group.layouts;
    auto [it, is_new] = groups_.try_emplace(key, group);
    if (is_new) return;
    it->second.count += group.count;
    it->second.times += group.times;
    it->second.seconds += group.seconds;
  }

  void add_op(const PlannedOp& op, const Node& node) {
    if (op.seconds <= 0) return;
    CostGroup group{kind_of(op.op), op.name, "", "", 1, op.times, op.seconds * op.times};
    if (!node.results.empty()) group.type = to_string(flat_.result_type(node, 0));
    group.layouts = layouts_text(op);
    add(std::move(group));
  }

  // The steps from one layout to another, one group for each.
  void add_move(const ShardingSpec& from, const ShardingSpec& to, const Type& type,
                const std::string& user, const std::string& example, double times) {
    if (!from.mesh || !to.mesh || from.same_layout(to)) return;
    const std::string key =
        fmt::format("{}|{}|{}", to_string(from), to_string(to), to_string(type));
    auto [it, is_new] = moves_.try_emplace(key);
    if (is_new) it->second = resharder_.plan(from, to, type.shape, type.dtype);
    ShardingSpec before = from;
    for (const ReshardStep& step : it->second.steps) {
      const std::string axes = to_string(step.axes, *plan_.mesh);
      CostGroup group{fmt::format("{}{}{}", name(step.kind), axes.empty() ? "" : " ", axes),
                      example,
                      to_string(type),
                      to_string(before) + " -> " + to_string(step.after),
                      1,
                      times,
                      step.seconds * times};
      if (!user.empty()) group.what += " for " + kind_of(user);
      before = step.after;
      if (group.seconds > 0) add(std::move(group));
    }
  }

  // A copy is made where its value is, or before the op that uses it first.
  void add_copy(const PlannedCopy& copy, const BoundCopy& bound) {
    const ValueId root = bound.source.value;
    const NodeId producer = flat_.value(root).producer;
    const NodeId at = bound.before.valid() ? bound.before : producer;
    const PlannedOp* op = at.valid() ? bound_.planned(at) : nullptr;
    add_move(bound_.spec(bound.source), copy.spec, flat_.type(root),
             bound.before.valid() && op ? op->op : "", op ? op->name : bound_.planned(root)->name,
             op ? op->times : 1);
  }

  const BoundPlan& bound_;
  const Plan& plan_;
  const Graph& flat_;
  Resharder resharder_;
  std::map<std::string, ReshardPlan> moves_;
  std::map<std::string, CostGroup> groups_;
};

// "[0].layers[3].q" -> {"[", "0", "].layers[", "3", "].q"}
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts = {""};
  bool digits = false;
  for (char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (digit != digits) parts.emplace_back();
    digits = digit;
    parts.back() += c;
  }
  return parts;
}

// Names that differ in numbers alone: what they have in common, with stars.
std::string common_name(const std::vector<std::string>& names) {
  if (names.size() == 1) return names[0];
  std::vector<std::string> common = parts_of(names[0]);
  for (const std::string& name : names) {
    const std::vector<std::string> parts = parts_of(name);
    for (size_t i = 0; i < common.size() && i < parts.size(); ++i)
      if (common[i] != parts[i]) common[i] = "*";
  }
  if (common == std::vector<std::string>{"arg", "*"}) {  // numbers alone say nothing
    std::vector<std::string> some(names.begin(), names.begin() + std::min<size_t>(3, names.size()));
    return fmt::format("{}{}", fmt::join(some, ", "), names.size() > 3 ? ", ..." : "");
  }
  return fmt::format("{}", fmt::join(common, ""));
}

std::string without_numbers(const std::string& name) {
  std::string text;
  for (const std::string& part : parts_of(name))
    text += !part.empty() && std::isdigit(static_cast<unsigned char>(part[0])) ? "*" : part;
  return text;
}

// How an argument lies, where no matmul says more.
std::string words_for(const ShardingSpec& spec) {
  std::string words;
  for (size_t d = 0; d < spec.dims.size(); ++d)
    if (!spec.dims[d].axes.empty())
      words += fmt::format("{}dimension {} split over {}", words.empty() ? "" : ", ", d,
                           to_string(spec.dims[d].axes, *spec.mesh));
  return words.empty() ? "whole on every device" : words;
}

}  // namespace

std::string layouts_text(const PlannedOp& op) {
  constexpr size_t kMostShown = 8;
  const size_t shown = op.operands.size() > kMostShown ? 3 : op.operands.size();
  std::string text;
  for (const PlannedOperand& operand : std::span(op.operands).first(shown))
    text += (text.empty() ? "" : ", ") + spec_text(operand.spec);
  if (shown < op.operands.size()) text += fmt::format(", ... ({} in all)", op.operands.size());
  text += " ->";
  for (const ShardingSpec& spec : op.results) text += " " + spec_text(spec);
  return text;
}

std::vector<CostGroup> cost_groups(const BoundPlan& bound, const MachineProfile& profile) {
  return Grouper(bound, profile).run();
}

std::vector<ArgumentGroup> argument_groups(const BoundPlan& bound, const Program& program) {
  const analyze::MemoryClasses classes = analyze::memory_classes(program);
  std::map<ValueId, std::string> patterns;  // of the first matmul with each weight
  for (const NamedPattern& pattern : named_patterns(bound))
    for (ValueId weight : pattern.weights)
      patterns.try_emplace(weight, fmt::format("{}", fmt::join(pattern.names, "; ")));
  std::vector<ArgumentGroup> groups;
  std::vector<std::vector<std::string>> members;
  std::map<std::string, size_t> known;
  const std::vector<ValueId>& args = bound.flat.region(bound.body()).args;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto& [arg, spec] = bound.plan.values[i];
    if (!spec.mesh) continue;
    ArgumentGroup group;
    group.role = i < classes.arguments.size() ? name(classes.arguments[i]) : "inputs";
    group.type = to_string(bound.flat.type(args[i]));
    group.layout = to_string(spec);
    const auto pattern = patterns.find(args[i]);
    group.pattern = pattern == patterns.end() ? words_for(spec) : pattern->second;
    const std::string key = fmt::format("{}|{}|{}|{}|{}", group.role, without_numbers(arg),
                                        group.type, group.layout, group.pattern);
    auto [it, is_new] = known.try_emplace(key, groups.size());
    if (is_new) {
      groups.push_back(std::move(group));
      members.emplace_back();
    }
    members[it->second].push_back(arg);
    groups[it->second].members.push_back(i);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].count = members[g].size();
    groups[g].name = common_name(members[g]);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const ArgumentGroup& a, const ArgumentGroup& b) { return a.role > b.role; });
  return groups;
}

}  // namespace cleave::plan
