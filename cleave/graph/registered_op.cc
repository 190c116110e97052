#include "cleave/graph/registered_op.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

struct RegisteredTable {
  std::shared_mutex mutex;
  std::map<std::string, RegisteredOpPtr, std::less<>> ops;
  std::atomic<uint64_t> version = 0;
};

RegisteredTable& registered_table() {
  static RegisteredTable& table = *new RegisteredTable;  // threads may outlive static variables
  return table;
}

const StringAttr* string_of(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  return attribute ? attribute->as<StringAttr>() : nullptr;
}

// Attributes that say how a call is made, and not what it computes.
bool is_part_of_op(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kOwn = {
      "api_version",     "backend_config",         "call_target_name", "called_computations",
      "has_side_effect", "operand_layouts",        "result_layouts",   "result_tilings",
      "decomposition",   "output_operand_aliases",
  };
  return name.find('.') != std::string_view::npos || std::ranges::find(kOwn, name) != kOwn.end() ||
         name == "composite_attributes" || name == "version";
}

const DictAttr* dict_of(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  return attribute ? attribute->as<DictAttr>() : nullptr;
}

bool has_dict(const Node& node) {
  return dict_of(node, "backend_config") || dict_of(node, "mhlo.backend_config") ||
         dict_of(node, "composite_attributes");
}

// The node with all attributes of the call in plain sight.
Node with_call_attributes(const Node& node) {
  Node plain = node;
  const AttrDict attrs = call_attributes(node);
  for (const NamedAttribute& each : attrs.entries()) plain.attrs.set(each.name, each.value);
  return plain;
}

std::string types_text(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += (text.empty() ? "" : ", ") + to_string(graph.type(value));
  return text;
}

std::string call_text(const Graph& graph, const Node& node) {
  return fmt::format("({}) -> ({})", types_text(graph, node.operands),
                     types_text(graph, node.results));
}

std::optional<std::string> misfit(const Graph& graph, const std::vector<ValueId>& values,
                                  const std::vector<TensorFactors>& tensors,
                                  const OpShardingRule& rule, const char* what) {
  if (tensors.size() != values.size())
    return fmt::format("it is for {} {}s, and the call has {}", tensors.size(), what,
                       values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    const size_t rank = type.is_tensor() ? type.shape.size() : 0;
    if (tensors[i].size() != rank)
      return fmt::format("{} {} has {} dimensions there, and {} in the call", what, i,
                         tensors[i].size(), rank);
    for (size_t d = 0; d < rank; ++d) {
      int64_t size = 1;
      for (FactorIndex factor : tensors[i][d]) {
        if (factor < 0 || factor >= static_cast<FactorIndex>(rule.factors.size()))
          return fmt::format("{} {} names a factor that it does not have", what, i);
        size *= rule.factors[factor].size;
      }
      if (type.shape[d] >= 0 && type.shape[d] != size)
        return fmt::format("dimension {} of {} {} has size {} there, and {} in the call", d, what,
                           i, size, type.shape[d]);
    }
  }
  return std::nullopt;
}

}  // namespace

RegisteredOpPtr find_registered(std::string_view name) {
  RegisteredTable& table = registered_table();
  const std::shared_lock lock(table.mutex);
  const auto it = table.ops.find(name);
  return it == table.ops.end() ? nullptr : it->second;
}

void change_registered(const std::string& name,
                       const std::function<RegisteredOpPtr(const RegisteredOpPtr& known)>& change) {
  RegisteredTable& table = registered_table();
  RegisteredOpPtr before;  // let go without the lock: its functions may be those of an interpreter
  const std::unique_lock lock(table.mutex);
  const auto it = table.ops.find(name);
  before = it == table.ops.end() ? nullptr : it->second;
  RegisteredOpPtr after = change(before);
  if (after)
    table.ops[name] = std::move(after);
  else if (before)
    table.ops.erase(it);
  ++table.version;
}

std::vector<std::string> registered_names() {
  RegisteredTable& table = registered_table();
  const std::shared_lock lock(table.mutex);
  std::vector<std::string> names;
  for (const auto& [name, op] : table.ops) names.push_back(name);
  return names;
}

uint64_t registered_version() { return registered_table().version; }

std::string_view registrable_name(const Node& node) {
  if (node.def->opaque) return node.name();
  if (const StringAttr* target = string_of(node, "call_target_name")) return target->value;
  if (node.def->has(kCall) && node.attrs.has("decomposition"))
    if (const StringAttr* name = string_of(node, "name")) return name->value;
  return {};
}

RegisteredOpPtr registered_op_of(const Node& node) {
  if (registered_version() == 0) return nullptr;  // nothing ever was
  const std::string_view name = registrable_name(node);
  return name.empty() ? nullptr : find_registered(name);
}

AttrDict call_attributes(const Node& node) {
  AttrDict attrs;
  for (const NamedAttribute& each : node.attrs.entries())
    if (!is_part_of_op(each.name)) attrs.set(each.name, each.value);
  for (const char* name : {"backend_config", "mhlo.backend_config", "composite_attributes"})
    if (const DictAttr* dict = dict_of(node, name))
      for (const NamedAttribute& each : dict->dict.entries()) attrs.set(each.name, each.value);
  return attrs;
}

void check_rule_fits(const Graph& graph, const Node& node, const OpShardingRule& rule) {
  std::optional<std::string> fault = misfit(graph, node.operands, rule.operands, rule, "operand");
  if (!fault) fault = misfit(graph, node.results, rule.results, rule, "result");
  if (fault)
    throw_user("{}: its registered rule does not fit {}: {}", registrable_name(node),
               call_text(graph, node), *fault);
}

OpShardingRule registered_rule(const Graph& graph, const Node& node) {
  const RegisteredOpPtr op = registered_op_of(node);
  if (!op || !op->rule) return {};
  OpShardingRule rule;
  try {
    rule = has_dict(node) ? op->rule(graph, with_call_attributes(node)) : op->rule(graph, node);
  } catch (const UserError& error) {
    throw_user("{}: its registered rule does not fit {}: {}", op->name, call_text(graph, node),
               error.what());
  }
  if (rule.empty()) return rule;  // nothing is known of this call
  check_rule_fits(graph, node, rule);
  rule.is_custom = true;
  return rule;
}

PartialTransfer registered_partial(const Graph& graph, const Node& node) {
  const RegisteredOpPtr op = registered_op_of(node);
  if (!op || !op->partial) return {};
  PartialTransfer rows =
      has_dict(node) ? op->partial(graph, with_call_attributes(node)) : op->partial(graph, node);
  for (const PartialRow& row : rows)
    if (row.operands.size() != node.operands.size())
      throw_user("{}: a row of its registered partial transfer is for {} operands, and {} has {}",
                 op->name, row.operands.size(), call_text(graph, node), node.operands.size());
  return rows;
}

}  // namespace cleave
