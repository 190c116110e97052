#include "cleave/runtime/trace_scope.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/ops/literal_array.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/record_order.h"
#include "cleave/runtime/signature.h"

namespace cleave {
namespace {

uint64_t next_level() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// Constants of more elements than this are captured once they are computed.
constexpr int64_t kMaxLiteral = 16;

bool is_small_constant(const Record& record) {
  return record.constant && record.computed &&
         num_elements(record.aval(0).type.shape) <= kMaxLiteral;
}

Literal literal_of(const Array& value) {
  const Array packed = value.contiguous();
  Literal literal;
  literal.type = Type::tensor(packed.dtype(), packed.shape());
  literal.bytes = std::make_shared<const std::vector<std::byte>>(packed.raw(),
                                                                 packed.raw() + packed.num_bytes());
  return literal;
}

}  // namespace

TraceScope::TraceScope(Takes takes) : level_(next_level()), outer_level_(trace_level()) {
  if (takes == Takes::Everything) trace_level() = level_;
}
TraceScope::~TraceScope() { trace_level() = outer_level_; }

Tensor TraceScope::placeholder(Type type, std::optional<ShardingSpec> spec, std::string name) {
  auto signature = std::make_shared<Signature>();
  signature->results.push_back(shared_aval(std::move(type), spec ? *spec : ShardingSpec{}));
  signature->mesh = signature->results[0]->spec.mesh;
  auto* record = new Record;
  record->signature = std::move(signature);
  record->placeholder = true;
  record->level = level_;
  placeholders_.emplace_back(record, 0);
  names_.push_back(std::move(name));
  return placeholders_.back();
}

Tensor TraceScope::placeholder_like(const Tensor& tensor, std::string name) {
  return placeholder(tensor.type(), tensor.mesh() ? std::optional(tensor.sharding()) : std::nullopt,
                     std::move(name));
}

Traced TraceScope::finish(std::span<const Tensor> outputs) {
  std::vector<Record*> roots;
  for (const Tensor& output : outputs) {
    if (!output.valid()) throw_user("a traced function returns an empty Tensor");
    roots.push_back(output.record());
  }
  // Nodes of the function: those of this trace, and constants that are not computed.
  auto follow = [&](const Record& record) {
    if (record.level > level_)
      throw_user(
          "a tensor of an inner trace, {}, is used after that trace has ended: return it from "
          "the inner function",
          to_string(record.aval(0).type));
    if (record.placeholder) return false;
    return record.level == level_ || (record.constant && !record.computed);
  };
  const std::vector<Record*> order = in_order(roots, follow);

  Traced traced;
  Graph& graph = traced.graph;
  std::vector<Type> types;
  for (const Tensor& placeholder : placeholders_) types.push_back(placeholder.type());
  GraphBuilder builder = GraphBuilder::function(graph, "main", std::move(types));
  MeshPtr mesh;
  std::unordered_map<Record*, std::vector<ValueId>> values;
  auto annotate = [&](size_t i, const ShardingSpec& spec) {
    annotate_argument(graph.functions[0], i, spec);
    if (!mesh) mesh = spec.mesh;
  };
  for (size_t i = 0; i < placeholders_.size(); ++i) {
    values[placeholders_[i].record()] = {builder.arg(i)};
    annotate(i, placeholders_[i].sharding());
    if (!names_[i].empty()) graph.value(builder.arg(i)).name = names_[i];
  }
  auto value_of = [&](const Tensor& tensor) {
    Record* record = tensor.record();
    std::vector<ValueId>& results = values[record];
    results.resize(record->signature->results.size());
    ValueId& value = results[tensor.index()];
    if (value.valid()) return value;
    if (is_small_constant(*record)) {
      AttrDict attrs;
      attrs.set("value", literal_attr(literal_of(values_of(tensor)[0])));
      return value = builder.emit_as(tensor.type(), "stablehlo.constant", {}, std::move(attrs));
    }
    if (record->placeholder && record->level == level_)
      throw_internal("a placeholder of this trace is not known to it");
    const size_t i = graph.functions[0].arg_types.size();
    graph.functions[0].arg_types.push_back(tensor.type());
    value = graph.add_argument(builder.region(), tensor.type(), "arg" + std::to_string(i));
    annotate(i, tensor.sharding());
    traced.captures.push_back(tensor);
    return value;
  };
  for (Record* record : order) {
    std::vector<ValueId> operands;
    for (const Tensor& operand : record->operands) operands.push_back(value_of(operand));
    const Graph& form = *record->signature->graph;
    values[record] = splice(form, form.functions[0], graph, builder.region(), operands);
    if (!mesh) mesh = record->signature->mesh;
  }
  std::vector<ValueId> results;
  for (const Tensor& output : outputs) results.push_back(value_of(output));
  builder.finish(results);
  if (mesh) graph.meshes = {mesh};
  return traced;
}

}  // namespace cleave
