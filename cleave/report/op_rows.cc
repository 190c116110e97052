#include "cleave/report/op_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cleave/core/number_text.h"
#include "cleave/ops/cost.h"
#include "cleave/plan/alternatives.h"
#include "cleave/plan/explain_groups.h"
#include "cleave/plan/explain_plan.h"

namespace cleave::report {
namespace {

constexpr std::initializer_list<const char*> kOpColumns = {
    "name",  "kind",  "type",     "seconds", "times", "line",        "block",
    "group", "class", "operands", "in",      "out",   "alternatives"};
constexpr size_t kMostWays = 12;

Json layouts_json(const PlannedOp& op, ReportTables& tables, bool of_results) {
  Json list = Json::array();
  if (of_results) {
    for (const ShardingSpec& spec : op.results) list.push_back(tables.spec(spec));
  } else {
    for (const plan::PlannedOperand& operand : op.operands)
      list.push_back(tables.spec(operand.spec));
  }
  return list;
}

// Of ops that take time.
std::vector<std::string> kernel_classes(const PlannedProgram& planned) {
  std::vector<std::string> classes(planned.plan.ops.size());
  std::vector<double> dearest(classes.size());
  for (const analyze::NodeCost& node : planned.cost.nodes) {
    const int op = planned.op_of(node.node);
    if (op < 0 || node.is_transfer || node.seconds <= dearest[static_cast<size_t>(op)]) continue;
    dearest[static_cast<size_t>(op)] = node.seconds;
    classes[static_cast<size_t>(op)] = name(node.kernel);
  }
  for (size_t i = 0; i < classes.size(); ++i)
    if (classes[i].empty() && planned.plan.ops[i].seconds > 0)
      classes[i] = name(op_cost(planned.flat, planned.flat.node(planned.bound.ops[i].node)).kernel);
  return classes;
}

int enter(const PlannedOp& op, int index, const std::string& type, GroupRows& groups) {
  return groups.add(kind_of(op.op), index, type, layouts_text(op), op.times, op.seconds * op.times);
}

// What values are made from, as names alone say: an op, or its n-th result; the arguments of a loop
// are of the loop; everything else is an argument.
std::unordered_map<std::string, Json> sources_by_name(const Plan& plan) {
  std::unordered_map<std::string, int> makers;
  for (size_t i = 0; i < plan.ops.size(); ++i)
    makers.emplace(plan.ops[i].name, static_cast<int>(i));
  std::unordered_map<std::string, Json> sources;
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const std::string& name = plan.values[i].name;
    const size_t hash = name.rfind('#'), slash = name.find('/');
    const auto number =
        hash == std::string::npos ? std::optional<int>(0) : number_of<int>(name.substr(hash + 1));
    auto maker = makers.find(name.substr(0, hash));
    if (maker == makers.end() && slash != std::string::npos)
      maker = makers.find(name.substr(0, slash));
    if (maker == makers.end())
      sources[name] = -1 - static_cast<int>(i);
    else if (number.value_or(0) == 0)
      sources[name] = maker->second;
    else
      sources[name] = Json::array({maker->second, *number});
  }
  return sources;
}

}  // namespace

std::string kind_of(const std::string& op) { return op.substr(op.find('.') + 1); }

int GroupRows::add(const std::string& what, int example, const std::string& type,
                   const std::string& layouts, double times, double seconds) {
  const auto [it, is_new] = known_.try_emplace(fmt::format("{}|{}|{}", what, type, layouts),
                                               static_cast<int>(groups_.size()));
  if (is_new) groups_.push_back({what, type, layouts, example});
  Group& group = groups_[static_cast<size_t>(it->second)];
  ++group.count;
  group.times += times;
  group.seconds += seconds;
  return it->second;
}

std::vector<int> GroupRows::sort() {
  std::vector<int> order(groups_.size()), place(groups_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return groups_[a].seconds > groups_[b].seconds; });
  std::vector<Group> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    place[static_cast<size_t>(order[i])] = static_cast<int>(i);
    sorted.push_back(std::move(groups_[static_cast<size_t>(order[i])]));
  }
  groups_ = std::move(sorted);
  return place;
}

Json GroupRows::take(ReportTables& tables) const {
  Json list = Json::array();
  for (const Group& group : groups_)
    list.push_back({{"what", group.what},
                    {"op", group.example},
                    {"type", tables.string(group.type)},
                    {"layouts", tables.string(group.layouts)},
                    {"count", group.count},
                    {"times", group.times},
                    {"seconds", rounded(group.seconds)}});
  return list;
}

Json source_json(const PlannedProgram::Source& source) {
  if (source.argument >= 0) return -1 - source.argument;
  if (source.result == 0) return source.op;
  return Json::array({source.op, source.result});
}

ArgumentTables argument_rows(const PlannedProgram& planned, ReportTables& tables) {
  const std::vector<ValueId>& args = planned.flat.region(planned.bound.body()).args;
  const std::vector<plan::ArgumentGroup> groups = argument_groups(planned.bound, planned.program);
  ArgumentTables result{{}, Json::array(), std::vector<std::string>(args.size(), "inputs")};
  std::vector<int> group_of(args.size(), -1);
  for (size_t g = 0; g < groups.size(); ++g) {
    const plan::ArgumentGroup& group = groups[g];
    for (size_t member : group.members) {
      group_of[member] = static_cast<int>(g);
      result.roles[member] = group.role;
    }
    result.groups.push_back({{"role", group.role},
                             {"name", group.name},
                             {"count", group.count},
                             {"type", tables.type(planned.flat.type(args[group.members[0]]))},
                             {"spec", tables.spec(planned.plan.values[group.members[0]].spec)},
                             {"pattern", group.pattern}});
  }
  Columns rows({"name", "type", "spec", "role", "group"});
  for (size_t i = 0; i < args.size(); ++i) {
    rows.add("name", tables.string(planned.plan.values[i].name));
    rows.add("type", tables.type(planned.flat.type(args[i])));
    rows.add("spec", tables.spec(planned.plan.values[i].spec));
    rows.add("role", tables.string(result.roles[i]));
    rows.add("group", group_of[i]);
  }
  result.args = rows.take();
  return result;
}

Json op_rows(const PlannedProgram& planned, const std::vector<int>& blocks, ReportTables& tables,
             GroupRows& groups) {
  const std::vector<std::string> classes = kernel_classes(planned);
  Columns rows(kOpColumns);
  for (size_t i = 0; i < planned.plan.ops.size(); ++i) {
    const PlannedOp& op = planned.plan.ops[i];
    const Node& node = planned.flat.node(planned.bound.ops[i].node);
    const Type* type = node.results.empty() ? nullptr : &planned.flat.result_type(node);
    const int index = static_cast<int>(i);
    rows.add("name", tables.string(op.name));
    rows.add("kind", tables.string(kind_of(op.op)));
    rows.add("type", type ? tables.type(*type) : -1);
    rows.add("seconds", rounded(op.seconds));
    rows.add("times", op.times);
    rows.add("line", tables.string(planned.line_of(index)));
    rows.add("block", blocks[i]);
    rows.add("group", op.seconds > 0 ? enter(op, index, type ? to_string(*type) : "", groups) : -1);
    rows.add("class", tables.string(classes[i]));
    Json operands = Json::array();
    for (const plan::BoundSource& source : planned.bound.ops[i].operands)
      operands.push_back(source_json(planned.source_of(source.value)));
    rows.add("operands", std::move(operands));
    rows.add("in", layouts_json(op, tables, false));
    rows.add("out", layouts_json(op, tables, true));
  }
  return rows.take();
}

Json way_rows(const PlannedProgram& planned, ReportTables& tables, Json& ops) {
  const plan::Alternatives::All all = plan::Alternatives(planned.bound, planned.profile).all();
  Json rows = Json::array();
  for (const std::vector<plan::Alternative>& ways : all.lists) {
    const auto chosen = std::find_if(ways.begin(), ways.end(),
                                     [](const plan::Alternative& way) { return way.chosen; });
    Json list = Json::array();
    for (auto way = ways.begin(); way != ways.end(); ++way) {
      // The cheapest ones, and the chosen one in any case.
      const size_t room = kMostWays - (chosen >= way && chosen != ways.end() ? 1 : 0);
      if (way != chosen && list.size() >= room) continue;
      list.push_back({{"layouts", tables.string(way->layouts)},
                      {"compute", rounded(way->compute)},
                      {"operands", rounded(way->operands)},
                      {"results", rounded(way->results)},
                      {"bytes", way->bytes},
                      {"chosen", way == chosen ? 1 : 0},
                      {"why", tables.string(way == chosen ? "" : why_not(*chosen, *way))}});
    }
    rows.push_back({{"count", ways.size()}, {"list", std::move(list)}});
  }
  ops["alternatives"] = all.of_op;
  return rows;
}

Json pattern_rows(const PlannedProgram& planned) {
  Json rows = Json::array();
  for (const plan::NamedPattern& pattern : named_patterns(planned.bound))
    rows.push_back({{"ops", pattern.ops.size()},
                    {"example", planned.op_named(pattern.ops[0])},
                    {"names", pattern.names},
                    {"types", pattern.types},
                    {"weight", pattern.weight},
                    {"weight_layout", pattern.weight_layout},
                    {"result_layout", pattern.result_layout}});
  return rows;
}

Json op_rows(const Plan& plan, ReportTables& tables, GroupRows& groups) {
  Columns rows(kOpColumns);
  std::unordered_map<std::string, Json> sources = sources_by_name(plan);
  for (const plan::PlannedCopy& copy : plan.copies) sources[copy.name] = sources[copy.source];
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlannedOp& op = plan.ops[i];
    rows.add("name", tables.string(op.name));
    rows.add("kind", tables.string(kind_of(op.op)));
    rows.add("type", -1);
    rows.add("seconds", rounded(op.seconds));
    rows.add("times", op.times);
    rows.add("line", tables.string(""));
    rows.add("block", 0);
    rows.add("group", op.seconds > 0 ? enter(op, static_cast<int>(i), "", groups) : -1);
    rows.add("class", tables.string(""));
    Json operands = Json::array();
    for (const plan::PlannedOperand& operand : op.operands)
      operands.push_back(sources[operand.source]);
    rows.add("operands", std::move(operands));
    rows.add("in", layouts_json(op, tables, false));
    rows.add("out", layouts_json(op, tables, true));
    rows.add("alternatives", -1);
  }
  return rows.take();
}

ArgumentTables argument_rows(const Plan& plan, ReportTables& tables) {
  ArgumentTables result{{}, Json::array(), {}};
  const std::unordered_map<std::string, Json> sources = sources_by_name(plan);
  Columns rows({"name", "type", "spec", "role", "group"});
  for (const plan::PlannedValue& value : plan.values) {
    const Json& source = sources.at(value.name);
    if (!source.is_number() || source.get<int>() >= 0) break;  // arguments come first
    result.roles.emplace_back("inputs");
    rows.add("name", tables.string(value.name));
    rows.add("type", -1);
    rows.add("spec", tables.spec(value.spec));
    rows.add("role", tables.string("inputs"));
    rows.add("group", -1);
  }
  result.args = rows.take();
  return result;
}

}  // namespace cleave::report
