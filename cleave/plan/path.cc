#include "cleave/plan/path.h"

#include <algorithm>

#include "cleave/graph/cloner.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave::plan {
namespace {

class CountingInterpreter : public Interpreter {
 public:
  explicit CountingInterpreter(const Graph& graph)
      : Interpreter(graph, std::make_shared<const Schedule>(graph), {}),
        runs(graph.num_regions()) {}

  std::vector<Array> run_region(RegionId region, std::span<const Array> args) override {
    ++runs[region.index];
    return Interpreter::run_region(region, args);
  }
  std::vector<Array> consume_region(RegionId region, std::vector<Array> args) override {
    ++runs[region.index];
    return Interpreter::consume_region(region, std::move(args));
  }

  RegionRuns runs;
};

class ManualInliner {
 public:
  ManualInliner(const Graph& from, Graph& to)
      : from_(from), to_(to), clone_(from, to, ValueMap(from.num_values())) {
    clone_.rewrite = [this](NodeId id, RegionId target) {
      if (!is<op::ManualComputation>(from_.node(id))) return false;
      manual(from_.node(id), target);
      return true;
    };
  }

  void run() {
    for (const Function& function : from_.functions) clone_.function(function);
  }

 private:
  void manual(const Node& node, RegionId target) {
    const Region& body = from_.region(node.regions[0]);
    for (size_t i = 0; i < body.args.size(); ++i)
      clone_.map(body.args[i], border(op::EnterManual::kName, node.operands[i],
                                      from_.type(body.args[i]), target));
    clone_.nodes(node.regions[0], target);
    const Node& end = from_.node(body.nodes.back());
    for (size_t i = 0; i < node.results.size(); ++i)
      clone_.map(node.results[i], border(op::LeaveManual::kName, end.operands[i],
                                         from_.result_type(node, i), target));
  }

  ValueId border(std::string_view name, ValueId value, const Type& type, RegionId target) {
    const NodeId id = to_.add_node(name, {clone_.mapped(value)}, {type}, {});
    to_.append(target, id);
    return to_.node(id).results[0];
  }

  const Graph& from_;
  Graph& to_;
  Cloner clone_;
};

}  // namespace

CountedRun run_counted(const Graph& graph, const std::string& entry, std::span<const Array> args) {
  check_arguments(graph, entry, args);
  CountingInterpreter interpreter(graph);
  CountedRun run;
  run.results = interpreter.call(entry, args);
  run.runs = std::move(interpreter.runs);
  run.runs[graph.find_function(entry)->body.index] = 1;
  return run;
}

DevicePath::DevicePath(const Executor& executor, int64_t device)
    : executor_(executor), device_(device), counts_(executor.program().graph.num_nodes()) {
  const Instance& instance = executor.instance(device);
  own_counts_.resize(instance.graph.num_nodes());
  is_inner_.resize(instance.graph.num_nodes());
  std::vector<RegionId> home(counts_.size());  // by node of the Program
  instance.graph.walk([&](NodeId id) {
    const NodeId origin = instance.origin[id.index];
    if (!origin.valid()) return;
    const RegionId parent = instance.graph.node(id).parent;
    if (!home[origin.index].valid()) home[origin.index] = parent;
    is_inner_[id.index] = home[origin.index] != parent;
  });
}

void DevicePath::executed(const Graph& graph, const Node& node, int64_t device,
                          std::span<const Array>, double, double) {
  if (device != device_ || node.results.empty()) return;
  const NodeId id = graph.value(node.results[0]).producer;
  const NodeId origin = executor_.instance(device).origin[id.index];
  if (!origin.valid() || is_inner_[id.index]) return;
  int64_t& count = counts_[origin.index];
  count = std::max(count, ++own_counts_[id.index]);
}

RegionRuns DevicePath::runs() const {
  const Graph& graph = executor_.program().graph;
  RegionRuns runs(graph.num_regions());
  graph.walk([&](NodeId id) {
    int64_t& run = runs[graph.node(id).parent.index];
    run = std::max(run, counts_[id.index]);
  });
  runs[executor_.program().entry_function().body.index] = 1;
  return runs;
}

bool has_manual_parts(const Graph& graph) {
  bool found = false;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    found |= is<op::EnterManual, op::LeaveManual>(node) || flow_of(node) == Flow::Manual;
  });
  return found;
}

Graph with_manual_in_place(const Graph& graph) {
  Graph inlined;
  inlined.name = graph.name;
  inlined.meshes = graph.meshes;
  ManualInliner(graph, inlined).run();
  return inlined;
}

}  // namespace cleave::plan
