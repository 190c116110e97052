#include "cleave/graph/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/call_order.h"
#include "cleave/graph/isolation.h"
#include "cleave/graph/manual_axes.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

std::string join_types(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += (text.empty() ? "" : ", ") + to_string(graph.type(value));
  return text;
}

bool is_terminator(const Node& node) {
  if (node.def && node.def->has(kTerminator)) return true;
  return node.name == "func.return" || node.name == "stablehlo.return" || node.name == "sdy.return";
}

bool has_valid_sizes(const Type& type) {
  return std::all_of(type.shape.begin(), type.shape.end(),
                     [](int64_t size) { return size >= 0 || size == kDynamicSize; });
}

class Verifier {
 public:
  Verifier(const Graph& graph, const VerifyOptions& options)
      : graph_(graph), options_(options), level_of_(graph.num_values(), kUndefined) {}

  void run() {
    verify_call_order(graph_);
    for (const Function& function : graph_.functions) verify_function(function);
  }

 private:
  static constexpr uint32_t kUndefined = UINT32_MAX;

  [[noreturn]] void fail(const Node& node, const std::string& message) const {
    throw_user("{} : ({}) -> ({}){}: {}", node.name, join_types(graph_, node.operands),
               join_types(graph_, node.results), where(node), message);
  }
  std::string where(const Node& node) const {
    std::string text;
    if (!node.results.empty() && !graph_.value(node.results[0]).name.empty())
      text = " of %" + graph_.value(node.results[0]).name;
    return text + " in @" + function_->name;
  }

  void verify_function(const Function& function) {
    function_ = &function;
    if (function.arg_attrs.size() != function.arg_types.size() ||
        function.result_attrs.size() != function.result_types.size())
      throw_user("function @{}: {} arguments and {} results, but attributes for {} and {}",
                 function.name, function.arg_types.size(), function.result_types.size(),
                 function.arg_attrs.size(), function.result_attrs.size());
    verify_function_shardings(function);
    if (!function.body.valid()) return;
    const Region& body = graph_.region(function.body);
    for (size_t i = 0; i < std::max(body.args.size(), function.arg_types.size()); ++i)
      if (i >= body.args.size() || i >= function.arg_types.size() ||
          graph_.type(body.args[i]) != function.arg_types[i])
        throw_user("function @{}: argument {} of the body is not that of the signature",
                   function.name, i);
    verify_region(function.body, "the body of @" + function.name);
    const Node& end = graph_.node(graph_.terminator(function.body));
    // JAX ends comparators that are functions (approx_max_k) as if they were regions of an op.
    if (end.name != "func.return" && end.name != "stablehlo.return")
      fail(end, "a function ends with func.return");
    check_values(end, end.operands, function.result_types, "the results of the function");
  }

  void check_values(const Node& node, const std::vector<ValueId>& values,
                    const std::vector<Type>& types, std::string_view what) const {
    if (values.size() != types.size())
      fail(node, fmt::format("{} values, but {} are {}", values.size(), what, types.size()));
    for (size_t i = 0; i < values.size(); ++i)
      if (graph_.type(values[i]) != types[i])
        fail(node, fmt::format("value {} is {}, but {} have {}", i,
                               to_string(graph_.type(values[i])), what, to_string(types[i])));
  }

  void verify_region(RegionId id, const std::string& what) {
    const Region& region = graph_.region(id);
    if (region.nodes.empty()) throw_user("{} is empty; it needs a terminator", what);
    for (ValueId arg : region.args) level_of_[arg.index] = level_;
    for (NodeId node_id : region.nodes) {
      const Node& node = graph_.node(node_id);
      const bool last = node_id == region.nodes.back();
      if (is_terminator(node) != last)
        fail(node, last ? what + " does not end with a terminator"
                        : std::string("a terminator before the end of its region"));
      verify_node(node);
      for (ValueId result : node.results) level_of_[result.index] = level_;
    }
    for (NodeId node_id : region.nodes)
      for (ValueId result : graph_.node(node_id).results) level_of_[result.index] = kUndefined;
    for (ValueId arg : region.args) level_of_[arg.index] = kUndefined;
  }

  void verify_node(const Node& node) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (level_of_[node.operands[i].index] == level_) continue;
      const std::string& name = graph_.value(node.operands[i]).name;
      fail(node, fmt::format("operand {}{} is not defined before its use", i,
                             name.empty() ? "" : " (%" + name + ")"));
    }
    const bool isolated = is_isolated(node);
    if (isolated) ++level_;
    for (size_t i = 0; i < node.regions.size(); ++i)
      verify_region(node.regions[i], fmt::format("region {} of {}{}", i, node.name, where(node)));
    if (isolated) --level_;
    if (node.name == "func.call") verify_call(node);
    if (options_.types) verify_types(node);
    if (options_.shardings) verify_shardings(node);
  }

  void verify_call(const Node& node) const {
    const Attribute* callee = node.attrs.find("callee");
    if (!callee || !callee->as<SymbolRefAttr>()) fail(node, "attribute 'callee' must be a symbol");
    const std::string& name = callee->as<SymbolRefAttr>()->root;
    const Function* function = graph_.find_function(name);
    if (!function) fail(node, fmt::format("there is no function @{}", name));
    check_values(node, node.operands, function->arg_types, "the arguments of @" + name);
    check_values(node, node.results, function->result_types, "the results of @" + name);
  }

  void verify_types(const Node& node) const {
    if (!node.def) return;
    if (node.def->infer) verify_inferred(node);
    if (node.def->verify) check_own(node, [&] { node.def->verify(graph_, node); });
  }

  void verify_inferred(const Node& node) const {
    std::vector<Type> types;
    check_own(node, [&] { types = node.def->infer(graph_, node); });
    if (types.size() != node.results.size())
      fail(node, fmt::format("{} results, but the op has {}", node.results.size(), types.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      if (!has_valid_sizes(types[i]))
        fail(node,
             fmt::format("result {} would be {}, of a negative size", i, to_string(types[i])));
      if (!compatible_types(types[i], graph_.type(node.results[i])))
        fail(node, fmt::format("result {} is declared as {}, but inferred as {}", i,
                               to_string(graph_.type(node.results[i])), to_string(types[i])));
    }
  }

  template <typename Check>
  void check_own(const Node& node, Check&& check) const {
    try {
      check();
    } catch (const UserError& error) {
      std::string message = error.what();
      if (message.rfind(node.name + ": ", 0) == 0) message.erase(0, node.name.size() + 2);
      fail(node, message);
    }
  }

  // A sharded dimension of size 0 is of no use, but not wrong.
  static void check_spec(const ShardingSpec& spec, const Type& type) {
    if (type.kind == Type::Kind::Tuple) return;
    Shape shape = type.is_tensor() && !type.unranked ? type.shape : Shape();
    std::replace(shape.begin(), shape.end(), int64_t{0}, int64_t{1});
    verify(spec, shape);
  }

  void verify_function_shardings(const Function& function) const {
    if (!options_.shardings) return;
    const auto check = [&](const std::vector<AttrDict>& dicts, const std::vector<Type>& types,
                           std::string_view what) {
      for (size_t i = 0; i < dicts.size(); ++i) {
        const Attribute* value = dicts[i].find("sdy.sharding");
        const auto* sharding = value ? value->as<ShardingAttr>() : nullptr;
        if (!sharding) continue;
        try {
          check_spec(sharding->spec, types[i]);
        } catch (const UserError& error) {
          throw_user("function @{}, {} {}: {}", function.name, what, i, error.what());
        }
      }
    };
    check(function.arg_attrs, function.arg_types, "argument");
    check(function.result_attrs, function.result_types, "result");
  }

  void check_specs(const Node& node, const std::vector<ShardingSpec>& specs,
                   const std::vector<ValueId>& values, std::string_view what) const {
    if (specs.size() != values.size())
      fail(node, fmt::format("{} shardings for {} {}", specs.size(), values.size(), what));
    for (size_t i = 0; i < specs.size(); ++i)
      check_own(node, [&] { check_spec(specs[i], graph_.type(values[i])); });
  }

  void verify_shardings(const Node& node) const {
    for (const NamedAttribute& entry : node.attrs.entries()) {
      if (const auto* one = entry.value.as<ShardingAttr>()) {
        if (node.results.size() == 1)
          check_own(node, [&] { check_spec(one->spec, graph_.type(node.results[0])); });
      } else if (const auto* many = entry.value.as<ShardingsAttr>()) {
        if (entry.name == "in_shardings")
          check_specs(node, many->specs, node.operands, "operands");
        else if (!node.results.empty())
          check_specs(node, many->specs, node.results, "results");
      } else if (const auto* rule = entry.value.as<ShardingRuleAttr>()) {
        verify_rule(node, *rule->rule);
      }
    }
  }

  void verify_rule(const Node& node, const OpShardingRule& rule) const {
    const auto check = [&](const std::vector<TensorFactors>& tensors,
                           const std::vector<ValueId>& values, std::string_view what) {
      if (tensors.size() != values.size())
        fail(node,
             fmt::format("a sharding rule with {} {} for {}", tensors.size(), what, values.size()));
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Type& type = graph_.type(values[i]);
        if (type.is_tensor() && tensors[i].size() != type.rank())
          fail(node, fmt::format("a sharding rule with {} dimensions for {}", tensors[i].size(),
                                 to_string(type)));
      }
    };
    check(rule.operands, node.operands, "operands");
    check(rule.results, node.results, "results");
  }

  const Graph& graph_;
  const VerifyOptions& options_;
  const Function* function_ = nullptr;
  std::vector<uint32_t> level_of_;  // by value: how many isolated regions are around it
  uint32_t level_ = 0;
};

}  // namespace

bool has_unranked(const Graph& graph, const Node& node) {
  const auto unranked = [&](ValueId value) { return graph.type(value).unranked; };
  return std::any_of(node.operands.begin(), node.operands.end(), unranked) ||
         std::any_of(node.results.begin(), node.results.end(), unranked);
}

bool compatible_types(const Type& a, const Type& b) {
  if (a == b) return true;
  // A quantized tensor may be given by its stored integers.
  const bool quantized =
      a.is_tensor() && b.is_tensor() && (a.dtype == DType::Other || b.dtype == DType::Other);
  if (a.kind != b.kind) return false;
  if (!quantized && (a.dtype != b.dtype || a.text != b.text)) return false;
  if (a.kind == Type::Kind::Tuple)
    return std::equal(a.elements.begin(), a.elements.end(), b.elements.begin(), b.elements.end(),
                      compatible_types);
  if (a.kind != Type::Kind::Tensor) return false;
  if (a.unranked || b.unranked) return true;
  const auto same_size = [](int64_t x, int64_t y) {
    return x == y || x == kDynamicSize || y == kDynamicSize;
  };
  return std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(), same_size);
}

void verify_graph(const Graph& graph, const VerifyOptions& options) {
  Verifier(graph, options).run();
  if (options.shardings) verify_manual_axes(graph);
}

}  // namespace cleave
