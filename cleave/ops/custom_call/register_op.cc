#include "cleave/ops/custom_call/register_op.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "cleave/core/error.h"
#include "cleave/core/near_names.h"
#include "cleave/core/placement.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/array.h"
#include "cleave/ops/custom_call/custom_call.h"
#include "cleave/ops/custom_call/inside_kernel.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

constexpr std::string_view kBlank = " \t\n";

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kBlank) - first + 1));
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

// How many dimensions a tensor of the notation has: words, or parentheses with words in them.
size_t num_dims(std::string_view tensor) {
  size_t count = 0;
  bool inside = false, in_word = false;
  for (char c : tensor) {
    if (c == '(') ++count;
    if (c == '(' || c == ')') inside = c == '(';
    const bool blank = kBlank.find(c) != std::string_view::npos || c == '(' || c == ')';
    if (!inside && !blank && !in_word) ++count;
    in_word = !inside && !blank;
  }
  return count;
}

// "... i, ... i -> ..." on tensors of rank 3: "e0_ e1_ i, e0_ e1_ i -> e0_ e1_".
std::string without_ellipsis(const std::string& notation, const std::vector<Shape>& shapes) {
  constexpr std::string_view kEllipsis = "...";
  if (notation.find(kEllipsis) == std::string::npos) return notation;
  const size_t arrow = notation.find("->"), notes = std::min(notation.find('{'), notation.size());
  std::vector<std::string> tensors = parts_of(notation.substr(0, arrow), ',');
  const size_t operands = tensors.size();
  for (std::string& result : parts_of(notation.substr(arrow + 2, notes - arrow - 2), ','))
    tensors.push_back(std::move(result));
  std::string text;
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::string& tensor = tensors[t];
    if (const size_t at = tensor.find(kEllipsis); at != std::string::npos && t < shapes.size()) {
      const size_t named = num_dims(tensor) - 1;
      if (shapes[t].size() < named)
        throw_user("'{}' needs {} dimensions at least, and {} has {}", tensor, named,
                   to_string(shapes[t]), shapes[t].size());
      std::string names;
      for (size_t d = 0; d < shapes[t].size() - named; ++d) names += fmt::format("e{}_ ", d);
      tensor.replace(at, kEllipsis.size(), names);
    }
    text += (t == 0 ? "" : t == operands ? " -> " : ", ") + tensor;
  }
  return text + " " + notation.substr(notes);
}

std::vector<Shape> shapes_of(const Graph& graph, const Node& node) {
  std::vector<Shape> shapes;
  for (ValueId operand : node.operands) shapes.push_back(graph.type(operand).shape);
  for (ValueId result : node.results) shapes.push_back(graph.type(result).shape);
  return shapes;
}

// Linear, bilinear, monotone; nothing for other words.
std::optional<PartialTransfer> rows_of_word(const std::string& word, size_t operands) {
  PartialTransfer rows;
  if (word == "linear") {
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg})
      rows.push_back({op, std::vector<bool>(operands, true), op});
  } else if (word == "bilinear") {
    for (size_t i = 0; i < operands; ++i)
      for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg}) {
        rows.push_back({op, std::vector<bool>(operands, false), op});
        rows.back().operands[i] = true;
      }
  } else if (word == "monotone") {
    if (operands != 1)
      throw_user("monotone is said of one operand, and the call has {}; write rows", operands);
    for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min}) rows.push_back({op, {true}, op});
  } else {
    return std::nullopt;
  }
  return rows;
}

// "P(sum), R -> P(sum)"
PartialRow parse_partial_row(const std::string& text) {
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos)
    throw_user(
        "partial '{}' is none of linear, bilinear and monotone, and no row such as \"P(sum), R -> "
        "P(sum)\"",
        text);
  const Placements in = parse_placements(trimmed(std::string_view(text).substr(0, arrow)));
  const Placements out = parse_placements(trimmed(std::string_view(text).substr(arrow + 2)));
  PartialRow row{};
  std::optional<ReduceOp> reduce;
  for (const Placement& placement : in) {
    row.operands.push_back(placement.is_partial());
    if (!placement.is_partial() && !placement.is_replicate())
      throw_user("partial '{}': operands are R or P(...) here; splits are what the rule says",
                 text);
    if (!placement.is_partial()) continue;
    if (reduce && *reduce != placement.reduce)
      throw_user("partial '{}': all partial operands of a row have one reduction", text);
    reduce = placement.reduce;
  }
  if (!reduce) throw_user("partial '{}': no operand is partial", text);
  for (const Placement& placement : out)
    if (!placement.is_partial() || placement.reduce != out[0].reduce)
      throw_user("partial '{}': all results are partial under one reduction", text);
  if (out.empty()) throw_user("partial '{}': there is no result", text);
  row.in = *reduce;
  row.out = out[0].reduce;
  return row;
}

void require_name(const std::string& name) {
  if (name.empty() || name.find_first_of(" \t\n\"@") != std::string::npos)
    throw_user("'{}' is no name for an op: it must have letters, and no blanks", name);
  if (find_op(name) || is_builtin_call(name))
    throw_user("{} is built in, and its rule cannot be changed; give the op another name", name);
}

thread_local int kernels_inside = 0;
struct KernelScope {
  KernelScope() { ++kernels_inside; }
  ~KernelScope() { --kernels_inside; }
};

std::string zeros_key(const std::string& name, std::span<const Type> operands,
                      const AttrDict& attrs) {
  std::string key = fmt::format("{} {}", registered_version(), name);
  for (const Type& type : operands) key += " " + to_string(type);
  for (const NamedAttribute& each : attrs.entries())
    key += fmt::format(" {}={}", each.name, to_string(each.value));
  return key;
}

std::vector<Type> types_of_zeros(const RegisteredOp& op, std::span<const Type> operands,
                                 const AttrDict& attrs) {
  std::vector<Array> zeros;
  for (const Type& type : operands) zeros.push_back(Array::zeros(type.dtype, type.shape));
  std::vector<Type> types;
  for (const Array& result : op.kernel(attrs, zeros))
    types.push_back(Type::tensor(result.dtype(), result.shape()));
  return types;
}

}  // namespace

bool inside_registered_kernel() { return kernels_inside > 0; }

RuleSource::RuleSource(std::string notation) {
  if (notation.find("->") == std::string::npos)
    throw_user("rule '{}' has no arrow; \"m k, k n -> m n\" is a rule", notation);
  function_ = [notation = std::move(notation)](const Graph& graph, const Node& node) {
    const std::vector<Shape> shapes = shapes_of(graph, node);
    return parse_short_rule(without_ellipsis(notation, shapes), shapes);
  };
}

PartialSource::PartialSource(const std::vector<std::string>& rows) {
  if (rows.empty()) return;
  std::vector<std::string> words;
  PartialTransfer stated;
  for (const std::string& row : rows) {
    if (rows_of_word(trimmed(row), 1))
      words.push_back(trimmed(row));
    else
      stated.push_back(parse_partial_row(row));
  }
  function_ = [words, stated](const Graph&, const Node& node) {
    PartialTransfer all = stated;
    for (const std::string& word : words)
      if (auto made = rows_of_word(word, node.operands.size()))
        all.insert(all.end(), made->begin(), made->end());
    return all;
  };
}

void register_rule(const std::string& name, RuleSource rule, PartialSource partial, bool replace) {
  require_name(name);
  if (!rule.function()) throw_user("register_rule {}: there is no rule", name);
  change_registered(name, [&](const RegisteredOpPtr& known) {
    if (known && known->rule && !replace)
      throw_user("{} has a rule already; say replace to change it, or unregister_rule it first",
                 name);
    auto op = known ? std::make_shared<RegisteredOp>(*known) : std::make_shared<RegisteredOp>();
    op->name = name;
    op->rule = rule.function();
    op->partial = partial.function();
    return op;
  });
}

void register_op(const std::string& name, OpRegistration given) {
  require_name(name);
  if (!given.kernel)
    throw_user("register_op {}: there is no kernel; register_rule needs none", name);
  change_registered(name, [&](const RegisteredOpPtr& known) {
    if (known && (known->kernel || given.rule.function()) && !given.replace)
      throw_user("{} is registered already; say replace to change it, or unregister_op it first",
                 name);
    auto op = std::make_shared<RegisteredOp>();
    if (known && !known->kernel) *op = *known;  // a rule that was there before
    op->name = name;
    op->kernel = std::move(given.kernel);
    op->types = std::move(given.types);
    op->cost = std::move(given.cost);
    if (given.rule.function()) op->rule = given.rule.function();
    // What an earlier rule let pass is not true of another one.
    if (given.rule.function() || given.partial.function()) op->partial = given.partial.function();
    return op;
  });
}

void unregister_rule(const std::string& name) {
  const std::string others = near_registered(name);
  change_registered(name, [&](const RegisteredOpPtr& known) -> RegisteredOpPtr {
    if (!known || !known->rule)
      throw_user("{} has no registered rule{}", name, known ? "" : others);
    if (!known->kernel) return nullptr;
    auto op = std::make_shared<RegisteredOp>(*known);
    op->rule = nullptr;
    op->partial = nullptr;
    return op;
  });
}

void unregister_op(const std::string& name) {
  const std::string others = near_registered(name);
  change_registered(name, [&](const RegisteredOpPtr& known) -> RegisteredOpPtr {
    if (!known) throw_user("no op {} is registered{}", name, others);
    return nullptr;
  });
}

std::string near_registered(std::string_view name) {
  const std::vector<std::string> near = near_names(name, registered_names(), 5);
  return near.empty() ? "" : fmt::format("; registered are: {}", fmt::join(near, ", "));
}

std::vector<Type> registered_types(const std::string& name, std::span<const Type> operands,
                                   const AttrDict& attrs) {
  const RegisteredOpPtr op = find_registered(name);
  if (!op || !op->kernel)
    throw_user("custom_call: no op {} is registered{}; register_op makes one known", name,
               near_registered(name));
  if (op->types) return op->types(operands, attrs);
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::vector<Type>>;
  constexpr size_t kMostCalls = 4096;
  const std::string key = zeros_key(name, operands, attrs);
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  std::vector<Type> types = types_of_zeros(*op, operands, attrs);
  const std::lock_guard lock(mutex);
  if (known.size() >= kMostCalls) known.clear();
  known.emplace(key, types);
  return types;
}

std::vector<Array> eval_registered(const Graph& graph, const Node& node, const RegisteredOp& op,
                                   std::span<const Array> operands) {
  // A device that has nothing of any result has nothing to compute.
  std::vector<Array> nothing;
  for (ValueId result : node.results) {
    const Type& type = graph.type(result);
    if (type.is_tensor() && type.has_static_shape() && num_elements(type.shape) == 0)
      nothing.emplace_back(type.dtype, type.shape);
  }
  if (!node.results.empty() && nothing.size() == node.results.size()) return nothing;
  const KernelScope scope;
  std::vector<Array> results = op.kernel(call_attributes(node), operands);
  bool fits = results.size() == node.results.size();
  for (size_t i = 0; fits && i < results.size(); ++i) {
    const Type& type = graph.result_type(node, i);
    fits = type.is_tensor() && results[i].dtype() == type.dtype &&
           (type.unranked || compatible(results[i].shape(), type.shape));
  }
  if (fits) return results;
  std::vector<std::string> given, wanted;
  for (const Array& result : results)
    given.push_back(to_string(Type::tensor(result.dtype(), result.shape())));
  for (ValueId result : node.results) wanted.push_back(to_string(graph.type(result)));
  throw_user(
      "{}: its kernel gives ({}) on ({}), and ({}) is declared; its rule or its types are "
      "wrong",
      op.name, fmt::join(given, ", "), operand_types_text(graph, node), fmt::join(wanted, ", "));
}

}  // namespace cleave
