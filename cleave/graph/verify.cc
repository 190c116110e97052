#include "cleave/graph/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/call_order.h"
#include "cleave/graph/manual_axes.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/verify_tables.h"

namespace cleave {
namespace {

std::string join_types(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += (text.empty() ? "" : ", ") + to_string(graph.type(value));
  return text;
}

bool is_terminator(const Node& node) {
  if (node.def->has(kTerminator)) return true;
  return node.name() == "func.return" || node.name() == "stablehlo.return" ||
         node.name() == "sdy.return";
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
    throw_user("{} : ({}) -> ({}){}: {}", node.name(), join_types(graph_, node.operands),
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
    if (end.name() != "func.return" && end.name() != "stablehlo.return")
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
    const bool isolated = node.def->has(kIsolated);
    if (isolated) ++level_;
    for (size_t i = 0; i < node.regions.size(); ++i)
      verify_region(node.regions[i], fmt::format("region {} of {}{}", i, node.name(), where(node)));
    if (isolated) --level_;
    if (node.name() == "func.call") verify_call(node);
    // First the shardings: an op's own check reads them dimension by dimension.
    if (options_.shardings) verify_shardings(node);
    if (options_.types) verify_types(node);
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
      if (message.rfind(node.name() + ": ", 0) == 0) message.erase(0, node.name().size() + 2);
      fail(node, message);
    }
  }

  // All of the value is on one device.
  static void check_maximal(const ShardingSpec& spec) {
    if (!spec.dims.empty() || !spec.replicated.empty() || !spec.partial.empty())
      throw_user("sharding {}: on a mesh of one device there are no dimensions and no axes",
                 to_string(spec));
  }

  // A sharded dimension of size 0 is of no use, but not wrong.
  static void check_spec(const ShardingSpec& spec, const Type& given) {
    if (spec.mesh && spec.mesh->is_maximal()) {
      check_maximal(spec);
      return;
    }
    const bool tuple = given.kind == Type::Kind::Tuple;
    if (tuple && given.elements.size() != 1)
      throw_user("sharding {} for {}: a tuple of one element alone can have one", to_string(spec),
                 to_string(given));
    const Type& type = tuple ? given.elements[0] : given;
    if (type.unranked)
      throw_user("sharding {} for {}, of unknown rank", to_string(spec), to_string(type));
    if (!type.is_tensor() && !(spec.replicated.empty() && spec.partial.empty()))
      throw_user("sharding {} for {}, which is no tensor", to_string(spec), to_string(type));
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
        if (!value) continue;
        const auto* sharding = value->as<ShardingAttr>();
        if (!sharding)
          throw_user("function @{}, {} {}: sdy.sharding must be a #sdy.sharding", function.name,
                     what, i);
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
      if (entry.name == "sdy.sharding" && !entry.value.as<ShardingsAttr>())
        fail(node, "sdy.sharding must be a #sdy.sharding_per_value");
      if (entry.name == "sdy.sharding_rule" && !entry.value.as<ShardingRuleAttr>())
        fail(node, "sdy.sharding_rule must be a #sdy.op_sharding_rule");
      if (const auto* one = entry.value.as<ShardingAttr>()) {
        if (node.results.size() == 1)
          check_own(node, [&] { check_spec(one->spec, graph_.type(node.results[0])); });
      } else if (const auto* many = entry.value.as<ShardingsAttr>()) {
        if (entry.name == "in_shardings")
          check_specs(node, many->specs, node.operands, "operands");
        else if (!node.results.empty())
          check_specs(node, many->specs, node.results, "results");
        else
          for (const ShardingSpec& spec : many->specs)
            if (spec.mesh && spec.mesh->is_maximal()) check_own(node, [&] { check_maximal(spec); });
      } else if (const auto* rule = entry.value.as<ShardingRuleAttr>()) {
        verify_rule(node, *rule->rule);
      }
    }
  }

  void verify_rule(const Node& node, const OpShardingRule& rule) const {
    if (rule.operands.empty() || rule.results.empty())
      fail(node, "a sharding rule needs an operand and a result");
    std::vector<bool> used(rule.factors.size());
    verify_mappings(node, rule, rule.operands, node.operands, "operands", used);
    std::vector<bool> in_results(rule.factors.size());
    verify_mappings(node, rule, rule.results, node.results, "results", in_results);
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (!used[f] && !in_results[f])
        fail(node, fmt::format("factor {} of the sharding rule is in no dimension", f));
      if (in_results[f] && rule.factors[f].kind == FactorKind::Reduction)
        fail(node,
             fmt::format("factor {} of the sharding rule is a reduction, and in a result", f));
      if (rule.factors[f].size < 0)
        fail(node, fmt::format("factor {} of the sharding rule has the size {}", f,
                               rule.factors[f].size));
    }
  }

  void verify_mappings(const Node& node, const OpShardingRule& rule,
                       const std::vector<TensorFactors>& tensors,
                       const std::vector<ValueId>& values, std::string_view what,
                       std::vector<bool>& used) const {
    if (tensors.size() != values.size())
      fail(node,
           fmt::format("a sharding rule with {} {} for {}", tensors.size(), what, values.size()));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Type& type = graph_.type(values[i]);
      if (!type.is_tensor() || !type.has_static_shape())
        fail(node, fmt::format("a sharding rule for {}, of unknown shape", to_string(type)));
      if (tensors[i].size() != type.rank())
        fail(node, fmt::format("a sharding rule with {} dimensions for {}", tensors[i].size(),
                               to_string(type)));
      std::vector<bool> here(rule.factors.size());
      for (const DimFactors& dim : tensors[i])
        for (FactorIndex index : dim) {
          const auto f = static_cast<size_t>(index);
          if (here[f])
            fail(node,
                 fmt::format("a sharding rule with factor {} twice in {}", f, to_string(type)));
          if (rule.factors[f].size == 1 && dim.size() > 1)
            fail(node, fmt::format("a sharding rule with factor {}, of size 1, beside others", f));
          here[f] = used[f] = true;
        }
    }
  }

  const Graph& graph_;
  const VerifyOptions& options_;
  const Function* function_ = nullptr;
  std::vector<uint32_t> level_of_;  // by value: how many isolated regions are around it
  uint32_t level_ = 0;
};

}  // namespace

namespace {

// !quant.uniform<i8<-128:127>:f32:0, {...}>: stored as i8, expresses f32, with scales per
// dimension.
struct Quantization {
  std::string storage, expressed;
  bool per_axis = false;
  bool operator==(const Quantization&) const = default;
};

Quantization quantization_of(std::string_view text) {
  text = text.substr(text.find('<') + 1);
  Quantization result;
  std::string* part = &result.storage;
  int depth = 0;
  for (char c : text) {
    if (c == '<') ++depth;
    if (depth == 0 && c == ',') break;
    if (depth == 0 && c == ':') {
      result.per_axis = part == &result.expressed;
      if (result.per_axis) break;
      part = &result.expressed;
    } else if (depth == 0) {
      *part += c;
    }
    if (c == '>') --depth;
  }
  return result;
}

// Of two types of which one is quantized. It may be given by its stored integers, and what an op
// infers may leave it open.
bool compatible_quantized(const Type& a, const Type& b) {
  if (!a.is_tensor() || !b.is_tensor()) return false;
  const auto is_other = [](const Type& type) { return type.dtype == DType::Other; };
  const auto is_quantized = [&](const Type& type) {
    return is_other(type) && (type.text.empty() || type.text.starts_with("!quant"));
  };
  if (!is_quantized(a) && !is_quantized(b)) return false;
  if (is_other(a) && is_other(b)) {
    if (a.text.empty() || b.text.empty()) return true;
    return is_quantized(a) && is_quantized(b) && quantization_of(a.text) == quantization_of(b.text);
  }
  const Type &quantized = is_other(a) ? a : b, &plain = is_other(a) ? b : a;
  if (quantized.text.empty() || !is_integer(plain.dtype)) return true;
  const std::string storage = quantization_of(quantized.text).storage;
  return name(plain.dtype) == (storage.starts_with('u') ? "ui" + storage.substr(1) : storage);
}

}  // namespace

bool has_unranked(const Graph& graph, const Node& node) {
  const auto unranked = [&](ValueId value) { return graph.type(value).unranked; };
  return std::any_of(node.operands.begin(), node.operands.end(), unranked) ||
         std::any_of(node.results.begin(), node.results.end(), unranked);
}

bool compatible_types(const Type& a, const Type& b) {
  if (a == b) return true;
  if (a.kind != b.kind) return false;
  if ((a.dtype != b.dtype || a.text != b.text) && !compatible_quantized(a, b)) return false;
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
  verify_tables(graph);
  Verifier(graph, options).run();
  if (options.shardings) verify_manual_axes(graph);
}

}  // namespace cleave
