#include "cleave/runtime/record.h"

#include <algorithm>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/flow.h"
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

void count(const std::vector<Array>& shards, int64_t sign) {
  for (size_t device = 0; device < shards.size(); ++device)
    add_device_bytes(device, sign * bytes_of(shards[device]));
}

void count(const RemotePtr& remote, int64_t sign) {
  if (!remote) return;
  const std::vector<int64_t> bytes = remote->device_bytes();
  for (size_t device = 0; device < bytes.size(); ++device)
    add_device_bytes(device, sign * bytes[device]);
}

void count_memory(const Record& record, int64_t sign) {
  for (const auto& shards : record.values) count(shards, sign);
  for (const RemotePtr& remote : record.remote) count(remote, sign);
}

RemotePtr& remote_of(Record& record, uint32_t index) {
  if (record.remote.empty()) record.remote.resize(record.signature->results.size());
  return record.remote[index];
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

Tensor make_computed(AvalPtr aval, RemotePtr remote) {
  Tensor tensor = make_computed(std::move(aval), std::vector<Array>());
  keep_remote(tensor, std::move(remote));
  return tensor;
}

RemotePtr remote_value(const Tensor& tensor) {
  const std::vector<RemotePtr>& remote = tensor.record()->remote;
  return remote.empty() ? nullptr : remote[tensor.index()];
}

void keep_remote(const Tensor& tensor, RemotePtr remote) {
  RemotePtr& kept = remote_of(*tensor.record(), tensor.index());
  count(kept, -1);
  kept = std::move(remote);
  count(kept, 1);
}

const AvalPtr& held_aval(const Tensor& tensor) {
  const Record& record = *tensor.record();
  return record.held.empty() ? record.signature->results[tensor.index()]
                             : record.held[tensor.index()];
}

const std::vector<Array>& held_values(const Tensor& tensor) {
  std::vector<Array>& shards = tensor.record()->values[tensor.index()];
  if (shards.empty())
    if (const RemotePtr remote = remote_value(tensor)) {
      shards = remote->fetch();
      count(shards, 1);
    }
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
  std::vector<Array> shards = tensor.record()->values[tensor.index()];
  drop_values(tensor);
  return shards;
}

void drop_values(const Tensor& tensor) {
  std::vector<Array>& shards = tensor.record()->values[tensor.index()];
  count(shards, -1);
  shards.clear();
  if (remote_value(tensor)) keep_remote(tensor, nullptr);
}

namespace {

// Copies with calls and composites written out.
class Splicer : public Cloner {
 public:
  Splicer(const Graph& from, Graph& to) : Cloner(from, to, ValueMap::sparse()) {
    rewrite = [this, &from](NodeId id, RegionId target) {
      if (flow_of(from.node(id)) != Flow::Call) return false;
      inline_region(id, callee_with_body(from, from.node(id)).body, target);
      return true;
    };
  }
};

}  // namespace

std::vector<ValueId> splice(const Graph& from, const Function& function, Graph& to, RegionId target,
                            std::span<const ValueId> args) {
  internal_check(from.region(function.body).args.size() == args.size(),
                 "splice: wrong number of arguments");
  return Splicer(from, to).inline_body(function.body, args, target);
}

std::vector<ValueId> splice_node(const Graph& from, NodeId node, Graph& to, RegionId target,
                                 std::span<const ValueId> inputs) {
  Splicer splicer(from, to);
  splicer.map(inputs, to.region(target).args);
  splicer.node(node, target);
  return splicer.mapped(from.node(node).results);
}

}  // namespace cleave
