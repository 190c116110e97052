#include <fmt/format.h>

#include <unordered_map>
#include <vector>

#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

// Ops that name their results: %output, %batch_mean, %batch_var =
// "stablehlo.batch_norm_training"(...)
struct ResultHints {
  std::string_view op;
  std::vector<std::string> names;
};

const ResultHints* find_result_hints(const Node& node) {
  static const std::vector<ResultHints> hints = {
      {"stablehlo.batch_norm_grad", {"grad_operand", "grad_scale", "grad_offset"}},
      {"stablehlo.batch_norm_training", {"output", "batch_mean", "batch_var"}},
      {"stablehlo.rng_bit_generator", {"output_state", "output"}},
      {"chlo.top_k", {"values", "indices"}},
  };
  if (node.results.size() < 2) return nullptr;
  for (const ResultHints& each : hints)
    if (each.op == node.name() && each.names.size() == node.results.size()) return &each;
  return nullptr;
}

// MLIR's way of naming: a region numbers its arguments and the results of its own ops first; then
// the regions inside go on from there, each from the same numbers, since no value of one is seen in
// another.
class Namer {
 public:
  Namer(const Graph& graph, bool generic)
      : graph_(graph), generic_(generic), names_(graph.num_values()) {}

  std::vector<std::string> run() {
    if (generic_) {
      run_unique();
    } else {
      for (const Function& function : graph_.functions)
        if (function.body.valid()) region(function.body, {}, "");
    }
    return std::move(names_);
  }

 private:
  struct Counters {
    uint64_t value = 0;
    uint64_t argument = 0;
    uint64_t conflict = 0;
  };

  std::string unique(const std::string& hint, Counters& counters) {
    if (!used_.contains(hint)) return use(hint);
    while (true) {
      std::string name = hint + "_" + std::to_string(counters.conflict++);
      if (!used_.contains(name)) return use(std::move(name));
    }
  }
  std::string use(std::string name) {
    ++used_[name];
    in_use_.push_back(name);
    return name;
  }

  // In the generic syntax a name is used once in the whole module, and the last region comes first.
  void run_unique() {
    Counters counters;
    std::vector<RegionId> stack;
    for (const Function& function : graph_.functions)
      if (function.body.valid()) stack.push_back(function.body);
    while (!stack.empty()) {
      const RegionId id = stack.back();
      stack.pop_back();
      own_values(id, counters, "");
      for (NodeId node : graph_.region(id).nodes)
        for (RegionId inner : graph_.node(node).regions) stack.push_back(inner);
    }
  }

  void own_values(RegionId id, Counters& counters, std::string_view owner) {
    const Region& region = graph_.region(id);
    for (ValueId arg : region.args) {
      const std::string hint = owner == "stablehlo.while" && !generic_
                                   ? "iterArg"
                                   : "arg" + std::to_string(counters.argument++);
      names_[arg.index] = "%" + unique(hint, counters);
    }
    for (NodeId node_id : region.nodes) results(graph_.node(node_id), counters);
  }

  void region(RegionId id, Counters counters, std::string_view owner) {
    const size_t mark = in_use_.size();
    own_values(id, counters, owner);
    for (NodeId node_id : graph_.region(id).nodes) {
      const Node& node = graph_.node(node_id);
      for (RegionId inner : node.regions) this->region(inner, counters, node.name());
    }
    while (in_use_.size() > mark) {
      used_.erase(in_use_.back());
      in_use_.pop_back();
    }
  }

  void results(const Node& node, Counters& counters) {
    if (node.results.empty()) return;
    if (const auto* hints = generic_ ? nullptr : find_result_hints(node)) {
      for (size_t i = 0; i < node.results.size(); ++i)
        names_[node.results[i].index] = "%" + unique(hints->names[i], counters);
      return;
    }
    std::string base;
    if (!generic_ && (node.name() == "stablehlo.constant" || node.name() == "arith.constant")) {
      const DType dtype = graph_.type(node.results[0]).dtype;
      const bool integer =
          node.name() == "stablehlo.constant" && (is_integer(dtype) || dtype == DType::Bool);
      base = "%" + unique(integer ? "c" : "cst", counters);
    } else if (!generic_ && node.name() == "tensor.cast") {
      base = "%" + unique("cast", counters);
    } else {
      base = "%" + std::to_string(counters.value++);
    }
    if (node.results.size() == 1) {
      names_[node.results[0].index] = std::move(base);
      return;
    }
    for (size_t i = 0; i < node.results.size(); ++i)
      names_[node.results[i].index] = fmt::format("{}#{}", base, i);
  }

  const Graph& graph_;
  bool generic_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> used_;
  std::vector<std::string> in_use_;
};

}  // namespace

std::vector<std::string> value_names(const Graph& graph, bool generic) {
  return Namer(graph, generic).run();
}

}  // namespace cleave
