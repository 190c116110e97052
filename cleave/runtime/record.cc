#include "cleave/runtime/record.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"
#include "cleave/runtime/device_memory.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/signature.h"

namespace cleave {
namespace {

Record* new_record(SignaturePtr signature, std::span<const Tensor> operands) {
  auto* record = new Record;
  record->operands.assign(operands.begin(), operands.end());
  record->constant = signature->constant;
  record->level = trace_level();
  for (const Tensor& operand : operands) {
    record->level = std::max(record->level, operand.record()->level);
    record->constant &= operand.record()->constant;
  }
  record->signature = std::move(signature);
  return record;
}

std::vector<Tensor> results_of(Record* record) {
  std::vector<Tensor> results;
  results.reserve(record->signature->results.size());
  for (uint32_t i = 0; i < record->signature->results.size(); ++i) results.emplace_back(record, i);
  // A record without results has nobody to hold it.
  if (results.empty()) Tensor(record, 0);
  return results;
}

int64_t bytes_of(const Array& array) {
  return array.valid() ? static_cast<int64_t>(array.num_bytes()) : 0;
}

void count_memory(const Record& record, int64_t sign) {
  for (const auto& shards : record.values)
    for (size_t device = 0; device < shards.size(); ++device)
      add_device_bytes(device, sign * bytes_of(shards[device]));
}

}  // namespace

uint64_t& trace_level() {
  thread_local uint64_t level = 0;
  return level;
}

Record::~Record() {
  if (computed) count_memory(*this, -1);
}

void free_record(Record* record) {
  // Freeing a record lets its operands go, and theirs: a list, not recursion.
  thread_local Record* pending = nullptr;
  thread_local bool freeing = false;
  record->next = pending;
  pending = record;
  if (freeing) return;
  freeing = true;
  while (pending) {
    Record* first = pending;
    pending = first->next;
    delete first;
  }
  freeing = false;
}

std::vector<Tensor> record(FormFn form, std::span<const int64_t> params,
                           std::span<const Tensor> operands) {
  return results_of(new_record(find_signature(form, params, operands), operands));
}

Tensor record_one(FormFn form, std::span<const int64_t> params, std::span<const Tensor> operands) {
  return {new_record(find_signature(form, params, operands), operands), 0};
}

std::vector<Tensor> record_function(Graph graph, std::span<const Tensor> operands) {
  return results_of(new_record(find_signature(std::move(graph), operands), operands));
}

std::vector<Tensor> record_known(const SignaturePtr& signature, std::span<const Tensor> operands) {
  return results_of(new_record(signature, operands));
}

Tensor make_computed(AvalPtr aval, std::vector<Array> shards) {
  auto* record = new Record;
  Tensor tensor(record, 0);
  set_computed(*record, {std::move(aval)}, {std::move(shards)});
  return tensor;
}

void set_computed(Record& record, std::vector<AvalPtr> avals,
                  std::vector<std::vector<Array>> values, std::vector<AvalPtr> held) {
  if (held == avals) held.clear();
  record.held = std::move(held);
  auto signature = std::make_shared<Signature>();
  signature->results = std::move(avals);
  if (!signature->results.empty()) signature->mesh = signature->results[0]->spec.mesh;
  record.signature = std::move(signature);
  record.values = std::move(values);
  record.computed = true;
  count_memory(record, 1);
  std::vector<Tensor>().swap(record.operands);
}

const AvalPtr& held_aval(const Tensor& tensor) {
  const Record& record = *tensor.record();
  return record.held.empty() ? record.signature->results[tensor.index()]
                             : record.held[tensor.index()];
}

const std::vector<Array>& held_values(const Tensor& tensor) {
  const std::vector<Array>& shards = tensor.record()->values[tensor.index()];
  if (shards.empty())
    throw_user(
        "{} was donated to a compiled function, which has written its results over it: use what "
        "the function returned, or do not donate it",
        to_string(tensor.type()));
  return shards;
}

namespace {

// What a device has of a completed reduction that counts as pending: one of them has it all.
Array pending_part(const Array& value, const ShardingSpec& spec, size_t device) {
  const Mesh& mesh = *spec.mesh;
  const int64_t position = mesh.position_of(static_cast<int64_t>(device));
  const bool adds_up = spec.partial_op == ReduceOp::Sum || spec.partial_op == ReduceOp::Prod;
  if (!value.valid() || !adds_up || coordinate(spec.partial, mesh, position) == 0) return value;
  return identity_array(spec.partial_op, value.dtype(), value.shape());
}

}  // namespace

std::vector<Array> values_of(const Tensor& tensor) {
  std::vector<Array> shards = held_values(tensor);
  if (held_aval(tensor)->spec == tensor.sharding()) return shards;
  for (size_t device = 0; device < shards.size(); ++device)
    shards[device] = pending_part(shards[device], tensor.sharding(), device);
  return shards;
}

std::vector<Array> take_values(const Tensor& tensor) {
  held_values(tensor);
  std::vector<Array>& shards = tensor.record()->values[tensor.index()];
  for (size_t device = 0; device < shards.size(); ++device)
    add_device_bytes(device, -bytes_of(shards[device]));
  return std::exchange(shards, {});
}

namespace {

class Splicer {
 public:
  Splicer(const Graph& from, Graph& to) : from_(from), to_(to) {}

  void bind(std::span<const ValueId> values, std::span<const ValueId> to) {
    internal_check(values.size() == to.size(), "splice: wrong number of arguments");
    for (size_t i = 0; i < values.size(); ++i) map_[values[i].index] = to[i];
  }

  void nodes(RegionId source, RegionId target) {
    for (NodeId id : from_.region(source).nodes)
      if (!(from_.node(id).def && from_.node(id).def->has(kTerminator)))
        copy(from_.node(id), target);
  }

  std::vector<ValueId> returned(RegionId source) const {
    return mapped(from_.node(from_.terminator(source)).operands);
  }

  void copy(const Node& node, RegionId target) {
    const bool composite = is<op::Composite>(node);
    if (composite || is<op::Call>(node)) {
      const auto callee = node.attrs.get_string(composite ? "decomposition" : "callee");
      const Function* function = from_.find_function(callee);
      if (!function || !function->body.valid())
        throw_user("{}: the module has no function @{} with a body", node.name, callee);
      bind(from_.region(function->body).args, mapped(node.operands));
      nodes(function->body, target);
      bind(node.results, returned(function->body));
      return;
    }
    std::vector<Type> types;
    for (ValueId result : node.results) types.push_back(from_.type(result));
    const NodeId copy =
        to_.add_node(node.name, mapped(node.operands), std::move(types), node.attrs);
    to_.append(target, copy);
    to_.node(copy).location = node.location;
    bind(node.results, std::vector<ValueId>(to_.node(copy).results));
    for (RegionId region : node.regions) {
      const RegionId inner = to_.add_region(copy);
      for (ValueId arg : from_.region(region).args)
        map_[arg.index] = to_.add_argument(inner, from_.type(arg), from_.value(arg).name);
      nodes(region, inner);
      if (from_.region(region).nodes.empty()) continue;
      const Node& end = from_.node(from_.terminator(region));
      to_.append(inner, to_.add_node(end.name, mapped(end.operands), {}, end.attrs));
    }
  }

  std::vector<ValueId> mapped(const std::vector<ValueId>& values) const {
    std::vector<ValueId> result;
    for (ValueId value : values) {
      const auto it = map_.find(value.index);
      internal_check(it != map_.end(), "a copied node uses a value that was not copied");
      result.push_back(it->second);
    }
    return result;
  }

 private:
  const Graph& from_;
  Graph& to_;
  std::unordered_map<uint32_t, ValueId> map_;  // as large as what is copied, not as the graph
};

}  // namespace

std::vector<ValueId> splice(const Graph& from, const Function& function, Graph& to, RegionId target,
                            std::span<const ValueId> args) {
  Splicer splicer(from, to);
  splicer.bind(from.region(function.body).args, args);
  splicer.nodes(function.body, target);
  return splicer.returned(function.body);
}

std::vector<ValueId> splice_node(const Graph& from, const Node& node, Graph& to, RegionId target,
                                 std::span<const ValueId> inputs) {
  Splicer splicer(from, to);
  const std::vector<ValueId> args = to.region(target).args;
  splicer.bind(inputs, std::span(args).first(inputs.size()));
  splicer.copy(node, target);
  return splicer.mapped(node.results);
}

}  // namespace cleave
