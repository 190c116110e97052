#include "cleave/transforms/compile.h"

#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/pjrt/engine.h"
#include "cleave/runtime/collective_listener.h"
#include "cleave/runtime/comm_log.h"
#include "cleave/runtime/manual_scope.h"
#include "cleave/transforms/cheaper_program.h"
#include "cleave/transforms/device_relayout.h"

namespace cleave::compile_detail {
namespace {

const AvalPtr& aval_of(const Tensor& tensor) {
  return tensor.record()->signature->results[tensor.index()];
}

MeshPtr mesh_of(std::span<const Tensor> tensors, const Graph& graph) {
  MeshPtr mesh;
  auto meet = [&](const MeshPtr& other) {
    if (!other || other->is_maximal() || other->is_empty()) return;
    if (mesh && !mesh->same_devices(*other))
      throw_user("compile: tensors are on two meshes, {} and {}", to_string(*mesh),
                 to_string(*other));
    if (!mesh) mesh = other;
  };
  for (const Tensor& tensor : tensors) meet(tensor.mesh());
  for (const MeshPtr& each : graph.meshes) meet(each);
  return mesh;
}

}  // namespace

bool any_traced(std::span<const Tensor> leaves) {
  for (const Tensor& leaf : leaves)
    if (leaf.valid() && leaf.is_traced()) return true;
  return false;
}

bool inside_another(std::span<const Tensor> leaves) {
  return any_traced(leaves) || trace_level() != 0 || manual_scope() != nullptr;
}

std::string many_programs_text(int64_t programs, const CallKey& key, const CallKey& before) {
  return fmt::format(
      "compile: this is program {} for Tensors of the same types and layouts: {}; pass what "
      "changes "
      "from call to call as a Tensor, which is an input of one program",
      programs, key.difference(before));
}

std::vector<size_t> leaves_of(std::span<const size_t> arguments, std::span<const size_t> counts) {
  std::vector<size_t> leaves;
  for (size_t argument : arguments) {
    if (argument >= counts.size())
      throw_user("compile: argument {} is to be donated, and the function has {}", argument,
                 counts.size());
    const size_t first = std::accumulate(counts.begin(), counts.begin() + argument, size_t{0});
    for (size_t i = 0; i < counts[argument]; ++i) leaves.push_back(first + i);
  }
  // An argument may be named twice.
  std::sort(leaves.begin(), leaves.end());
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  return leaves;
}

Compiled::Compiled(Trace trace, std::span<const Tensor> leaves, const CompileOptions& options)
    : captures_(std::move(trace.captures)), donated_(options.donate), engine_(options.engine) {
  for (const Tensor& leaf : leaves) args_.push_back(aval_of(leaf));
  std::vector<Tensor> all(leaves.begin(), leaves.end());
  all.insert(all.end(), captures_.begin(), captures_.end());
  if (any_traced(captures_))
    throw_user("compile: the function uses a tensor of an outer trace; pass it as an argument");
  const std::vector<Type> result_types = trace.graph.functions[0].result_types;
  const MeshPtr mesh = mesh_of(all, trace.graph);
  if (!mesh) {
    layouts_.resize(all.size());
    for (const Type& type : result_types) results_.push_back(shared_aval(type, {}));
    if (pjrt::is_xla_engine(options.engine)) {
      const std::string entry = trace.graph.functions[0].name;
      xla_ = pjrt::whole_program(options.engine, std::move(trace.graph), entry, donated_);
      return;
    }
    CompileOptions recorded = options;
    recorded.verified = true;
    executable_ =
        std::make_unique<Executable>(trace.graph, trace.graph.functions[0].name, recorded);
    return;
  }
  if (trace.graph.meshes.empty()) trace.graph.meshes = {mesh};
  take(cheaper_program(std::move(trace.graph), mesh), result_types, options);
}

Compiled::Compiled(Program program, std::span<const Type> args, std::vector<Tensor> captures,
                   const CompileOptions& options)
    : captures_(std::move(captures)), donated_(options.donate) {
  const std::vector<Type> result_types = program.entry_function().result_types;
  take(std::move(program), result_types, options);
  for (size_t i = 0; i < args.size(); ++i) args_.push_back(shared_aval(args[i], layouts_[i]));
}

void Compiled::take(Program program, std::span<const Type> result_types,
                    const CompileOptions& options) {
  const RegionId body = program.entry_function().body;
  for (ValueId arg : program.graph.region(body).args) layouts_.push_back(program.layout(arg).spec);
  const Node end = program.graph.node(program.graph.terminator(body));
  for (size_t i = 0; i < result_types.size(); ++i)
    results_.push_back(shared_aval(result_types[i], program.layout(end.operands[i]).spec));
  if (pjrt::is_xla_engine(options.engine))
    xla_ = pjrt::sharded_program(options.engine, program, donated_);
  else
    executable_ = std::make_unique<Executable>(std::move(program), options);
}

Compiled::~Compiled() = default;

std::string Compiled::description() const {
  return xla_ ? pjrt::describe(*xla_) : describe(*executable_);
}

bool Compiled::fits(std::span<const Tensor> leaves) const {
  if (leaves.size() != args_.size()) return false;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].valid()) return false;
    const AvalPtr& aval = aval_of(leaves[i]);
    if (aval == args_[i]) continue;
    // It was on no mesh when f was traced, and now lies where the program wants it: the results of
    // a first step that are the arguments of the next.
    const bool placed = !args_[i]->spec.mesh && aval->spec.mesh && layouts_[i].mesh &&
                        aval->type == args_[i]->type && aval->spec.same_layout(layouts_[i]);
    if (!placed) return false;
  }
  return true;
}

bool Compiled::keeps_layouts(std::span<const Tensor> leaves, const AvalPtr& result) const {
  if (!captures_.empty() || leaves.size() != layouts_.size()) return false;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (!leaves[i].mesh() || !leaves[i].sharding().same_layout(layouts_[i])) return false;
  return results_.size() == 1 && results_[0]->type == result->type &&
         results_[0]->spec.same_layout(result->spec);
}

void Compiled::check_donated(std::span<const Tensor> inputs) const {
  for (size_t i : donated_)
    for (size_t k = 0; k < inputs.size(); ++k)
      if (k != i && inputs[k].is_same(inputs[i]))
        throw_user("compile: {} is donated, and is given to the function a second time",
                   to_string(inputs[i].type()));
}

std::vector<Tensor> Compiled::run_xla(std::span<const Tensor> inputs,
                                      std::span<const Tensor> leaves) {
  std::vector<RemotePtr> values = xla_->run(inputs);
  for (size_t i : donated_) {
    drop_values(inputs[i]);
    if (!leaves[i].is_same(inputs[i]) && leaves[i].is_computed()) drop_values(leaves[i]);
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < results_.size(); ++i)
    results.push_back(make_computed(results_[i], std::move(values[i])));
  return results;
}

std::vector<Tensor> Compiled::run(std::span<const Tensor> leaves) {
  std::vector<Tensor> inputs(leaves.begin(), leaves.end());
  inputs.insert(inputs.end(), captures_.begin(), captures_.end());
  check_donated(inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (layouts_[i].mesh && !(inputs[i].mesh() && inputs[i].sharding().same_layout(layouts_[i])))
      inputs[i] = inputs[i].with_sharding(layouts_[i]);
  if (xla_)
    for (const Tensor& input : inputs) relay_on_devices(input, engine_);
  evaluate(inputs);
  if (xla_) return run_xla(inputs, leaves);
  const auto devices = static_cast<size_t>(executable_->num_devices());
  std::vector<std::vector<Array>> args(devices);
  for (const Tensor& input : inputs) {
    const std::vector<Array> shards = values_of(input);
    for (size_t d = 0; d < devices; ++d) args[d].push_back(shards[d]);
  }
  for (size_t i : donated_) {
    take_values(inputs[i]);
    if (inputs[i].record() != leaves[i].record() && leaves[i].is_computed()) take_values(leaves[i]);
  }
  CommLog log(CommLog::Unheard{});
  ExecuteOptions options;
  std::optional<CollectiveListener> own;  // collectives that the function calls itself
  if (CommLog::anyone_listens()) {
    options.log = &log;
    if (executable_->program() && calls_collectives(executable_->program()->graph))
      options.observer = &own.emplace(*executable_->program()->mesh);
  }
  std::vector<std::vector<Array>> parts = executable_->run_shards(std::move(args), options);
  if (options.log) CommLog::tell_listeners(log.events());
  if (own) CommLog::tell_listeners(own->events());
  std::vector<Tensor> results;
  for (size_t i = 0; i < results_.size(); ++i) {
    std::vector<Array> shards;
    for (auto& part : parts) shards.push_back(part.empty() ? Array() : std::move(part[i]));
    results.push_back(make_computed(results_[i], std::move(shards)));
  }
  return results;
}

}  // namespace cleave::compile_detail
