#include "cleave/pjrt/xla_module.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/registered_op.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/pjrt/element_type.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/runtime/executor.h"

namespace cleave::pjrt {
namespace {

constexpr const char* kAlias = "tf.aliasing_output";
constexpr const char* kDonor = "jax.buffer_donor";

// Dialects that the compilers behind PJRT read.
bool is_read_by_xla(std::string_view op) {
  static constexpr std::array<std::string_view, 6> kDialects = {"stablehlo.", "chlo.",  "func.",
                                                                "mhlo.",      "arith.", "shape."};
  return std::any_of(kDialects.begin(), kDialects.end(),
                     [&](std::string_view dialect) { return op.starts_with(dialect); }) ||
         op == "return";
}

void check_ops(const Graph& graph) {
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (!is_read_by_xla(node.name()))
      throw_user("{}: XLA does not know this op; Cleave's own engine can run the module",
                 node.name());
    if (const RegisteredOpPtr op = registered_op_of(node); op && op->kernel)
      throw_user(
          "{}: XLA cannot call the kernel that was registered for it; Cleave's own engine can",
          op->name);
    for (ValueId result : node.results)
      if (const Type& type = graph.type(result); type.is_tensor() && !type.has_static_shape())
        throw_user("{}: its result is {}; XLA's engine needs sizes that are known", node.name(),
                   to_string(type));
  });
}

// Constants that propagation has split are StableHLO's.
void name_constants(Graph& graph) {
  const OpDef* constant = find_op("stablehlo.constant");
  graph.walk([&](NodeId id) {
    if (Node& node = graph.node(id); is<op::SdyConstant>(node)) node.def = constant;
  });
}

// Ops that only say how a value is laid out: on one device they are their operands.
void drop_layouts(Graph& graph) {
  GraphRewrite rewrite(graph);
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (own_sharding_attr(node).empty() || node.operands.size() != node.results.size()) return;
    for (size_t i = 0; i < node.results.size(); ++i)
      rewrite.replace_uses(node.results[i], node.operands[i]);
    rewrite.erase(id);
  });
  rewrite.apply();
  drop_shardings_and_meshes(graph);
}

// The functions that an attribute names.
void add_names(const Attribute& attribute, std::vector<std::string>& names) {
  if (const auto* symbol = attribute.as<SymbolRefAttr>()) names.push_back(symbol->root);
  if (const auto* array = attribute.as<ArrayAttr>())
    for (const Attribute& element : array->elements) add_names(element, names);
}

// Only the entry and what it calls remain, so that nothing else of the module matters.
void keep_reachable(Graph& graph, const std::string& entry) {
  std::set<std::string> reached{entry};
  std::vector<std::string> waiting{entry};
  while (!waiting.empty()) {
    const Function* function = graph.find_function(waiting.back());
    waiting.pop_back();
    if (!function || !function->body.valid()) continue;
    graph.walk(function->body, [&](NodeId id) {
      std::vector<std::string> names;
      for (const NamedAttribute& each : graph.node(id).attrs.entries())
        add_names(each.value, names);
      for (const std::string& name : names)
        if (graph.find_function(name) && reached.insert(name).second) waiting.push_back(name);
    });
  }
  std::erase_if(graph.functions,
                [&](const Function& function) { return !reached.count(function.name); });
}

// XLA begins at @main, and may change or remove private functions only. The entry calls no function
// that calls it, so nothing refers to it by name.
Function& make_main(Graph& graph, const std::string& entry) {
  keep_reachable(graph, entry);
  if (entry != "main" && graph.find_function("main"))
    throw_user(
        "@{} calls @main, and XLA begins at a function of that name; give the function that is "
        "called another",
        entry);
  for (Function& function : graph.functions) {
    const bool is_entry = function.name == entry;
    if (is_entry) function.name = "main";
    function.visibility = is_entry ? "public" : "private";
  }
  return *graph.find_function("main");
}

// An argument may take a result's place only if both have the same type; otherwise its memory is
// free for whatever fits.
void fit_donations(Function& main) {
  main.arg_attrs.resize(main.arg_types.size());
  main.result_attrs.resize(main.result_types.size());
  std::vector<bool> taken(main.result_types.size(), false);
  for (size_t i = 0; i < main.arg_types.size(); ++i) {
    AttrDict& attrs = main.arg_attrs[i];
    if (!attrs.has(kAlias)) continue;
    const int64_t result = attrs.get_int(kAlias);
    const bool fits = result >= 0 && result < static_cast<int64_t>(taken.size()) &&
                      !taken[result] && main.result_types[result] == main.arg_types[i];
    if (fits) {
      taken[result] = true;
      continue;
    }
    attrs.erase(kAlias);
    attrs.set(kDonor, true);
  }
}

XlaModule finish(Graph& graph, Function& main, CompileSettings settings) {
  fit_donations(main);
  XlaModule module;
  module.settings = std::move(settings);
  module.arg_types = main.arg_types;
  module.result_types = main.result_types;
  for (size_t i = 0; i < main.arg_types.size(); ++i) {
    require_transferable(main.arg_types[i], fmt::format("argument {} of the function", i));
    module.donated.push_back(is_donated(main, i));
  }
  for (size_t i = 0; i < main.result_types.size(); ++i)
    require_transferable(main.result_types[i], fmt::format("result {} of the function", i));
  graph.attrs.set("mhlo.num_partitions", int_attr(module.settings.partitions, DType::I32));
  graph.attrs.set("mhlo.num_replicas", int_attr(module.settings.replicas, DType::I32));
  module.text = print_module(graph);
  return module;
}

}  // namespace

XlaModule one_device_module(const Graph& graph, const std::string& entry) {
  Graph copy = graph;
  Function& main = make_main(copy, entry);
  drop_layouts(copy);
  name_constants(copy);
  check_ops(copy);
  for (auto* list : {&main.arg_attrs, &main.result_attrs})
    for (AttrDict& attrs : *list) attrs.erase("mhlo.sharding");
  return finish(copy, main, {});
}

XlaModule every_device_module(const Graph& graph, const std::string& entry, int64_t partitions) {
  if (partitions == 1) return one_device_module(graph, entry);
  Graph copy = graph;
  Function& main = make_main(copy, entry);
  name_constants(copy);
  check_ops(copy);
  main.arg_attrs.resize(main.arg_types.size());
  main.result_attrs.resize(main.result_types.size());
  for (auto* list : {&main.arg_attrs, &main.result_attrs})
    for (AttrDict& attrs : *list) attrs.set("mhlo.sharding", StringAttr{"{manual}"});
  CompileSettings settings;
  settings.partitions = partitions;
  settings.spmd_partitioning = true;
  return finish(copy, main, std::move(settings));
}

}  // namespace cleave::pjrt
