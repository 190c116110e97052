#include "cleave/discover/registry_operator.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/library.h"
#include "cleave/discover/mesh_check.h"
#include "cleave/discover/op_call.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/verify.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/spmd/program.h"

namespace cleave {
namespace {

// One device's graph, ready to run.
struct LocalCall {
  Graph graph;
  std::shared_ptr<const Schedule> schedule;
};

// Local shapes that no program has may reach checks behind the op's own; they are rejections too.
template <typename F>
auto unless_broken(F run) {
  try {
    return run();
  } catch (const InternalError& error) {
    throw_user("the op has no part for these placements: {}", error.what());
  }
}

DeviceRun run_of(std::vector<std::shared_ptr<const LocalCall>> calls) {
  std::vector<std::shared_ptr<Interpreter>> interpreters;
  for (const auto& call : calls)
    interpreters.push_back(
        std::make_shared<Interpreter>(call->graph, call->schedule, Interpreter::Options{}));
  return [calls = std::move(calls),
          interpreters = std::move(interpreters)](const DeviceArrays& operands) {
    DeviceArrays results;
    std::vector<Array> args(operands.size());
    for (size_t device = 0; device < calls.size(); ++device) {
      for (size_t i = 0; i < operands.size(); ++i) args[i] = operands[i][device];
      std::vector<Array> outputs =
          unless_broken([&] { return interpreters[device]->call("main", args); });
      results.resize(outputs.size());
      for (size_t r = 0; r < outputs.size(); ++r) results[r].push_back(std::move(outputs[r]));
    }
    return results;
  };
}

ShardingSpec spec_of(Placements placements, const MeshPtr& mesh, const Type& type) {
  for (Placement& p : placements)
    if (p.is_shard() && p.dim >= static_cast<int>(type.rank())) p = Placement::replicate();
  return from_placements(placements, mesh, type.rank());
}

// Every value where it is asked for, and no transfer: the local forms decide whether it can be.
DeviceRun localize_call(const Graph& call, const std::vector<Placements>& operands,
                        const Placements& result, const std::vector<int>& sizes) {
  Program program;
  program.graph = call;
  program.mesh = mesh_of_sizes(sizes);
  program.entry = "main";
  program.layouts.resize(call.num_values());
  const std::vector<ValueId>& args = call.region(call.find_function("main")->body).args;
  for (size_t i = 0; i < operands.size(); ++i)
    program.layouts[args[i].index].spec = spec_of(operands[i], program.mesh, call.type(args[i]));
  for (ValueId value : call.node(called_op(call)).results)
    program.layouts[value.index].spec = spec_of(result, program.mesh, call.type(value));
  return run_program(program);
}

bool has_dim_name(const std::string& name) {
  static const std::vector<std::string> names = {
      "dimension",       "dimensions",     "dim",
      "iota_dimension",  "permutation",    "concat_dimension",
      "split_dimension", "all_gather_dim", "scatter_dimension",
      "feature_index"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The call whose regions, constants and attributes fit best what is asked for.
const Graph& nearest(const std::vector<Graph>& calls, const std::vector<Sample>& samples,
                     const std::vector<TensorDesc>& operands, const AttrMap& attrs) {
  size_t best = 0;
  int best_score = -1;
  for (size_t i = 0; i < calls.size(); ++i) {
    int score = 0;
    for (const auto& [name, value] : attrs) {
      auto it = samples[i].attrs.find(name);
      score += it != samples[i].attrs.end() && it->second == value;
    }
    for (size_t k = 0; k < std::min(operands.size(), samples[i].operands.size()); ++k)
      score += (samples[i].operands[k].shape.size() == operands[k].shape.size()) +
               (samples[i].operands[k].dtype == operands[k].dtype);
    if (score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return calls[best];
}

}  // namespace

DeviceRun run_program(const Program& program) {
  std::vector<std::shared_ptr<const LocalCall>> calls;
  for (int64_t device = 0; device < program.mesh->num_devices(); ++device) {
    auto local = std::make_shared<LocalCall>();
    local->graph = unless_broken([&] { return instantiate(program, device).graph; });
    verify_graph(local->graph);
    local->schedule = std::make_shared<const Schedule>(local->graph);
    calls.push_back(std::move(local));
  }
  return run_of(std::move(calls));
}

Operator operator_of_calls(const std::vector<Graph>& calls) {
  std::vector<Sample> samples;
  for (const Graph& call : calls) samples.push_back(sample_of(call));
  const Graph& first = calls.front();
  const OpDef& def = *first.node(called_op(first)).def;
  CallFn make = [calls, samples](const std::vector<TensorDesc>& operands, const AttrMap& attrs) {
    return with_sample(nearest(calls, samples, operands, attrs), operands, attrs);
  };
  Operator op = operator_with_graph(def.name, make, samples);
  op.run = [run = op.run](const AttrMap& attrs, std::span<const Array> operands) {
    return unless_broken([&] { return run(attrs, operands); });
  };
  op.prepare = [prepare = op.prepare](const AttrMap& attrs,
                                      const std::vector<TensorDesc>& operands) -> ArrayCall {
    ArrayCall call = unless_broken([&] { return prepare(attrs, operands); });
    return [call = std::move(call)](std::span<const Array> arrays) {
      return unless_broken([&] { return call(arrays); });
    };
  };
  if (def.localize || has_explicit_result(first))
    op.localize = [make](const Sample& sample, const std::vector<Placements>& operands,
                         const Placements& result, const std::vector<int>& mesh) {
      return localize_call(make(sample.operands, sample.attrs), operands, result, mesh);
    };
  op.exact = def.name.ends_with("next_after");
  if (samples.front().attrs.contains("result")) op.shape_attr = "result";
  for (const auto& [name, value] : samples.front().attrs)
    if (has_dim_name(name)) op.dim_attrs.push_back(name);
  return op;
}

std::optional<Operator> find_registry_operator(std::string_view name) {
  const OpDef* def = find_op(name);
  if (!def) return std::nullopt;
  std::vector<Graph> calls;
  for (const Graph& call : registry_samples()) {
    if (call.node(called_op(call)).def != def) continue;
    // One operator has one number of operands and results, and one set of attributes.
    if (!calls.empty()) {
      const Sample a = sample_of(calls.front()), b = sample_of(call);
      auto names = [](const AttrMap& attrs) {
        std::vector<std::string> list;
        for (const auto& [attr, value] : attrs) list.push_back(attr);
        return list;
      };
      if (a.operands.size() != b.operands.size() || names(a.attrs) != names(b.attrs)) continue;
    }
    calls.push_back(call);
  }
  if (calls.empty())
    throw_user("discover {}: {}", name,
               reason_without_sample(name).value_or("the op has no sample"));
  return operator_of_calls(calls);
}

}  // namespace cleave
