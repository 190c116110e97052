#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "cleave/core/error.h"
#include "cleave/ops/custom_call/inside_kernel.h"
#include "cleave/runtime/collective_listener.h"
#include "cleave/runtime/comm_log.h"
#include "cleave/runtime/program_cache.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/record_order.h"
#include "cleave/runtime/signature.h"
#include "cleave/spmd/combine_reductions.h"
#include "cleave/spmd/partition.h"

// From recorded ops to values: what is asked for and not computed becomes a graph, the graph a
// Program, and the Program runs.
namespace cleave {
namespace {

struct Runtime {
  std::mutex mutex;
  ProgramCache programs{256};
};

Runtime& runtime() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

// Parts of a pending sum of 16-bit floats are kept in 32 bits only inside a program: a tensor that
// is asked for is completed there.
bool has_half_sum(const Record& record) {
  for (size_t i = 0; i < record.signature->results.size(); ++i) {
    const Aval& aval = record.aval(i);
    const bool half = aval.type.dtype == DType::F16 || aval.type.dtype == DType::BF16;
    if (half && aval.spec.is_partial()) return true;
  }
  return false;
}

// The ops of one mesh (or of none) in the order of execution, as one program.
class Stage {
 public:
  explicit Stage(MeshPtr mesh) : mesh_(std::move(mesh)) {}

  const MeshPtr& mesh() const { return mesh_; }

  void add(Record* record) {
    std::vector<uint32_t> operands;
    for (const Tensor& operand : record->operands) operands.push_back(value_of(operand));
    first_result_[record] = next_value_;
    next_value_ += static_cast<uint32_t>(record->signature->results.size());
    steps_.push_back({record, std::move(operands)});
  }
  // `completes`: its pending sum is completed.
  void keep(Record* record, bool completes) { kept_.push_back({record, completes}); }

  void run() {
    if (kept_.empty()) return;
    const ReadyProgramPtr program =
        runtime().programs.find(key(), [this] { return make_program(); });
    std::vector<std::vector<Array>> args(program->executor.num_devices());
    for (const Tensor& input : inputs_) {
      const std::vector<Array>& shards = held_values(input);
      const bool on_mesh = input.sharding().mesh != nullptr;
      for (size_t device = 0; device < args.size(); ++device)
        args[device].push_back(shards[on_mesh ? device : 0]);
    }
    std::vector<std::vector<Array>> parts = run_logged(*program, args);
    size_t next = 0;
    for (const auto& [record, completes] : kept_) {
      std::vector<AvalPtr> held;
      std::vector<std::vector<Array>> values;
      for (size_t i = 0; i < record->signature->results.size(); ++i, ++next) {
        held.push_back(program->results[next]);
        values.emplace_back();
        for (auto& part : parts)
          values.back().push_back(part.empty() ? Array() : std::move(part[next]));
      }
      set_computed(*record, record->signature->results, std::move(values), std::move(held));
    }
  }

 private:
  struct Step {
    Record* record;
    std::vector<uint32_t> operands;
  };
  static constexpr uint32_t kInput = 1u << 31;

  uint32_t value_of(const Tensor& tensor) {
    if (auto it = first_result_.find(tensor.record()); it != first_result_.end())
      return it->second + tensor.index();
    auto& known = inputs_of_[tensor.record()];
    for (auto [index, input] : known)
      if (index == tensor.index()) return kInput | input;
    known.emplace_back(tensor.index(), static_cast<uint32_t>(inputs_.size()));
    inputs_.push_back(tensor);
    return kInput | (static_cast<uint32_t>(inputs_.size()) - 1);
  }

  ProgramKey key() const {
    ProgramKey key;
    key.add(inputs_.size());
    for (const Tensor& input : inputs_) key.add(held_aval(input));
    key.add(steps_.size());
    for (const Step& step : steps_) {
      key.add(step.record->signature);
      for (uint32_t operand : step.operands) key.add(operand);
    }
    for (const auto& [record, completes] : kept_)
      key.add(2 * first_result_.at(record) + (completes ? 1 : 0));
    return key;
  }

  ReadyProgramPtr make_program() const {
    // A pending sum that is held comes out completed if an op has completed it, so that it is done
    // once, and sums of 16-bit floats are rounded once; all else comes out as it was recorded.
    ReadyProgramPtr program = make_program(true);
    size_t next = 0;
    for (const auto& [record, completes] : kept_)
      for (const AvalPtr& recorded : record->signature->results)
        if (!is_recorded(*program->results[next++], *recorded)) return make_program(false);
    return program;
  }

  // As recorded, or a completed sum that was recorded as pending.
  static bool is_recorded(const Aval& made, const Aval& recorded) {
    return made.spec == recorded.spec || (recorded.spec.is_partial() && !made.spec.is_partial() &&
                                          made.spec.dims == recorded.spec.dims);
  }

  ReadyProgramPtr make_program(bool sums_as_they_come) const {
    Graph graph;
    std::vector<Type> types;
    for (const Tensor& input : inputs_) types.push_back(input.type());
    GraphBuilder builder = GraphBuilder::function(graph, "main", std::move(types));
    if (mesh_) graph.meshes = {mesh_};
    for (size_t i = 0; i < inputs_.size(); ++i)
      annotate_argument(graph.functions[0], i, held_aval(inputs_[i])->spec);
    std::vector<ValueId> values;
    values.reserve(next_value_);
    for (const Step& step : steps_) {
      std::vector<ValueId> operands;
      for (uint32_t operand : step.operands)
        operands.push_back(operand & kInput ? builder.arg(operand & ~kInput) : values[operand]);
      const Graph& form = *step.record->signature->graph;
      for (ValueId result : splice(form, form.functions[0], graph, builder.region(), operands))
        values.push_back(result);
    }
    std::vector<ValueId> outputs;
    std::vector<AttrDict> layouts;
    for (const auto& [record, completes] : kept_)
      for (size_t i = 0; i < record->signature->results.size(); ++i) {
        outputs.push_back(values[first_result_.at(record) + i]);
        layouts.emplace_back();
        ShardingSpec spec = record->aval(i).spec;
        if (!spec.mesh) continue;
        if (completes)
          spec.partial.clear();
        else if (sums_as_they_come && spec.is_partial())
          continue;
        layouts.back().set("sdy.sharding", ShardingAttr{std::move(spec)});
      }
    builder.finish(outputs);
    graph.functions[0].result_attrs = std::move(layouts);

    const std::vector<Type> result_types = graph.functions[0].result_types;
    Program program =
        partition(graph, {.entry = "main", .mesh = mesh_, .keep_results = true, .verified = true});
    combine_scalar_reductions(program);
    std::vector<AvalPtr> results;
    for (size_t i = 0; i < result_types.size(); ++i)
      results.push_back(
          shared_aval(result_types[i], mesh_ ? result_spec(program, i) : ShardingSpec{}));
    return std::make_shared<const ReadyProgram>(std::move(program), std::move(results));
  }

  static std::vector<std::vector<Array>> run_logged(const ReadyProgram& program,
                                                    const std::vector<std::vector<Array>>& args) {
    const Executor& executor = program.executor;
    if (!CommLog::anyone_listens()) return executor.run_shards(args);
    CommLog log(CommLog::Unheard{});
    CollectiveListener listener(*executor.program().mesh);
    auto results = executor.run_shards(
        args, {.log = &log, .observer = program.calls_collectives ? &listener : nullptr});
    CommLog::tell_listeners(log.events());
    CommLog::tell_listeners(listener.events());
    return results;
  }

  MeshPtr mesh_;
  std::vector<Step> steps_;
  std::vector<Tensor> inputs_;
  std::unordered_map<Record*, uint32_t> first_result_;
  std::unordered_map<Record*, std::vector<std::pair<uint32_t, uint32_t>>> inputs_of_;
  std::vector<std::pair<Record*, bool>> kept_;
  uint32_t next_value_ = 0;
};

[[noreturn]] void throw_traced(const Record& record) {
  throw_user(
      "the value of {} is asked for inside a trace, where it depends on an argument that has none: "
      "return it from the traced function, and look at it outside",
      record.placeholder ? "an argument" : to_string(record.aval(0).type));
}

// Longer recordings are computed in pieces, which keep what later ones use: programs stay small,
// and the turns of a loop that was recorded are often one program.
constexpr size_t kMostOps = 4096;

void evaluate_piece(std::span<Record* const> order, const std::unordered_set<Record*>& asked) {
  // Handles that records of this piece hold; a record that has more is held by somebody else too.
  std::unordered_map<Record*, uint32_t> inner_handles;
  std::unordered_map<Record*, bool> crosses;  // used by an op on a mesh while on none itself
  for (Record* record : order)
    for (const Tensor& operand : record->operands) {
      ++inner_handles[operand.record()];
      if (operand.record()->signature->mesh != record->signature->mesh)
        crosses[operand.record()] = true;
    }

  std::vector<Stage> stages;
  stages.emplace_back(nullptr);
  auto stage_of = [&](const Record& record) -> Stage& {
    for (Stage& stage : stages)
      if (stage.mesh() == record.signature->mesh) return stage;
    return stages.emplace_back(record.signature->mesh);
  };
  for (Record* record : order) stage_of(*record).add(record);
  for (Record* record : order) {
    const auto inner = inner_handles.find(record);
    const uint32_t held = inner == inner_handles.end() ? 0 : inner->second;
    const bool wanted = asked.contains(record);
    if (wanted || crosses.count(record) || record->handles.load() > held)
      stage_of(*record).keep(record, wanted && has_half_sum(*record));
  }
  for (Stage& stage : stages) stage.run();
}

}  // namespace

void evaluate(std::span<const Tensor> tensors) {
  if (inside_registered_kernel())
    throw_user(
        "the kernel of a registered op asks for the value of a Tensor, while it is run to compute "
        "one; compute with arrays there");
  std::lock_guard lock(runtime().mutex);
  std::vector<Record*> roots;
  for (const Tensor& tensor : tensors) {
    if (!tensor.valid()) throw_user("an empty Tensor has no value: assign it one first");
    if (tensor.record()->level) throw_traced(*tensor.record());
    roots.push_back(tensor.record());
  }
  const std::vector<Record*> order =
      in_order(roots, [](const Record& record) { return !record.computed; });
  const std::unordered_set<Record*> asked(roots.begin(), roots.end());
  for (size_t begin = 0; begin < order.size(); begin += kMostOps)
    evaluate_piece(std::span(order).subspan(begin, std::min(kMostOps, order.size() - begin)),
                   asked);
}

ProgramCacheStats program_cache_stats() {
  std::lock_guard lock(runtime().mutex);
  const ProgramCache& programs = runtime().programs;
  return {programs.hits(), programs.misses(), programs.size()};
}

}  // namespace cleave
