#include "cleave/report/memory_rows.h"

#include <algorithm>

#include "cleave/analyze/memory_classes.h"

namespace cleave::report {
namespace {

// "dot_general.3", "all_gather \"data\" of dot_general.2", "params.w".
std::string label_of(const PlannedProgram& planned, const analyze::MemoryHistory::Buffer& buffer) {
  if (!buffer.made_by.valid())
    return buffer.argument < 0 ? ""
                               : planned.plan.values[static_cast<size_t>(buffer.argument)].name;
  const Graph& graph = planned.program.graph;
  const Node& node = graph.node(buffer.made_by);
  auto op_name = [&](NodeId id) {
    const int op = planned.op_of(id);
    return op < 0 ? graph.node(id).name() : planned.plan.ops[static_cast<size_t>(op)].name;
  };
  if (!is_transfer(node)) return op_name(buffer.made_by);
  std::string text = std::string(node.attrs.get_string("cleave.step")) + " " +
                     std::string(node.attrs.get_string("cleave.axes")) + " of ";
  const ValueId source = behind_transfers(graph, node.operands[0]);
  const NodeId maker = graph.value(source).producer;
  if (maker.valid()) return text + op_name(maker);
  const std::vector<ValueId>& args = graph.region(planned.program.entry_function().body).args;
  const auto argument = std::find(args.begin(), args.end(), source);
  if (argument == args.end()) return text + "what a loop carries";
  return text + planned.plan.values[static_cast<size_t>(argument - args.begin())].name;
}

}  // namespace

Json memory_of_plan(const Plan& plan) {
  Json classes = Json::array();
  for (int c = 0; c < analyze::kNumMemoryClasses; ++c)
    classes.push_back(std::string(name(static_cast<analyze::MemoryClass>(c))));
  Json json = {{"limit", nullptr},
               {"device", nullptr},
               {"share", plan.memory.share},
               {"peak", plan.memory.peak},
               {"peak_at", plan.memory.peak_at},
               {"arguments", plan.memory.arguments}};
  if (plan.memory.limit) {
    json["limit"] = *plan.memory.limit;
    json["device"] =
        static_cast<int64_t>(static_cast<double>(*plan.memory.limit) / plan.memory.share + 0.5);
  }
  json["program_peak"] = plan.memory.peak;
  json["program_peak_step"] = -1;
  json["steps"] = 0;
  json["classes"] = std::move(classes);
  for (const char* column : {"step_op", "step_change", "held"}) json[column] = Json::array();
  Columns buffers({"label", "type", "cls", "bytes", "first", "last"});
  json["buffers"] = buffers.take();
  json["inside"] = Json::array();
  return json;
}

Json memory_rows(const PlannedProgram& planned, const ChangeTable& changes, ReportTables& tables) {
  const analyze::MemoryHistory history = analyze::memory_history(planned.program);
  Json json = memory_of_plan(planned.plan);
  int64_t peak = history.arguments, peak_step = -1;
  for (size_t s = 0; s < history.steps.size(); ++s) {
    const analyze::MemoryHistory::Step& step = history.steps[s];
    const int change = step.node.valid() ? changes.of_node[step.node.index] : -1;
    json["step_op"].push_back(step.node.valid() && change < 0 ? planned.op_of(step.node) : -1);
    json["step_change"].push_back(change);
    json["held"].push_back(step.held);
    json["inside"].push_back(step.inside);
    if (step.held <= peak && peak_step >= 0) continue;
    peak_step = static_cast<int64_t>(s);
    peak = step.held;
  }
  json["program_peak"] = peak;
  json["program_peak_step"] = peak_step;
  json["steps"] = history.steps.size();
  Columns buffers({"label", "type", "cls", "bytes", "first", "last"});
  for (const analyze::MemoryHistory::Buffer& buffer : history.buffers) {
    buffers.add("label", tables.string(label_of(planned, buffer)));
    buffers.add("type", tables.string(buffer.type));
    buffers.add("cls", static_cast<int>(buffer.memory_class));
    buffers.add("bytes", buffer.bytes);
    buffers.add("first", buffer.first);
    buffers.add("last", buffer.last);
  }
  json["buffers"] = buffers.take();
  return json;
}

}  // namespace cleave::report
