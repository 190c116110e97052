#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "algebra.h"
#include "cleave/core/error.h"
#include "cleave/core/near_names.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/rewrite/pass.h"
#include "cleave/rules/explain.h"
#include "cleave/rules/pipelines.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

const char* kind_name(FactorKind kind) {
  switch (kind) {
    case FactorKind::PassThrough:
      return "pass_through";
    case FactorKind::Reduction:
      return "reduction";
    case FactorKind::NeedReplication:
      return "need_replication";
    case FactorKind::Permutation:
      return "permutation";
  }
  return "";
}

nb::tuple tensors_of(const std::vector<TensorFactors>& tensors) {
  nb::list list;
  for (const TensorFactors& dims : tensors) {
    nb::list tensor;
    for (const DimFactors& factors : dims) {
      nb::list dim;
      for (FactorIndex factor : factors) dim.append(factor_symbol(factor));
      tensor.append(nb::tuple(dim));
    }
    list.append(nb::tuple(tensor));
  }
  return nb::tuple(list);
}

nb::dict factors_of(const OpShardingRule& rule) {
  nb::dict factors;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const Factor& factor = rule.factors[i];
    nb::dict facts;
    facts["size"] = factor.size;
    facts["kind"] = kind_name(factor.kind);
    facts["blocked"] = factor.blocked;
    const bool reduced = factor.kind == FactorKind::Reduction && !factor.unknown_reduce;
    facts["reduction"] =
        reduced ? nb::cast(std::string(name(factor.reduce))) : nb::object(nb::none());
    factors[factor_symbol(static_cast<FactorIndex>(i)).c_str()] = facts;
  }
  return factors;
}

// The short notation needs shapes, which python/cleave/rules.py makes of what the caller says.
void make_rule(OpShardingRule* self, const std::string& text, nb::object shapes,
               const nb::kwargs& sizes) {
  if (text.starts_with("(") && text.find("->(") != std::string::npos && text.find('[') == 1) {
    new (self) OpShardingRule(parse_sharding_rule(text));
    return;
  }
  const auto [notation, all] = nb::cast<std::pair<std::string, std::vector<Shape>>>(
      nb::module_::import_("cleave.rules").attr("notation")(text, shapes, sizes));
  new (self) OpShardingRule(parse_short_rule(notation, all));
}

void bind_rule(nb::module_& m) {
  nb::class_<OpShardingRule>(
      m, "Rule",
      "How the dimensions of an op's operands and results correspond: each is a product of "
      "factors.\n\n"
      "    Rule(\"m k, k n -> m n\")\n"
      "    Rule(\"(h d) -> h d\", h=4, d=2)\n"
      "    Rule(\"([i, k],[k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}\")")
      .def("__init__", &make_rule, "text"_a, "shapes"_a = nb::none(), "sizes"_a)
      .def_prop_ro("factors", &factors_of,
                   "By name (i, j, ... as they print): size, kind, reduction, blocked.")
      .def_prop_ro(
          "operands", [](const OpShardingRule& self) { return tensors_of(self.operands); },
          "Of each operand, by dimension: the names of its factors, major to minor.")
      .def_prop_ro("results", [](const OpShardingRule& self) { return tensors_of(self.results); })
      .def_prop_ro("is_custom", [](const OpShardingRule& self) { return self.is_custom; })
      .def_prop_ro(
          "text", [](const OpShardingRule& self) { return to_string(self); },
          "As Shardy writes it.")
      .def("__str__", [](const OpShardingRule& self) { return to_short_string(self); })
      .def("__repr__",
           [](nb::handle self) { return nb::str(nb::str("Rule({!r})").format(self.attr("text"))); })
      .def("__eq__",
           [](const OpShardingRule& self, nb::handle other) {
             return nb::isinstance<OpShardingRule>(other) &&
                    self == nb::cast<const OpShardingRule&>(other);
           })
      .def("__hash__",
           [](const OpShardingRule& self) { return std::hash<std::string>()(to_string(self)); })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(self.attr("text")));
      });
}

// One op of a module with its rule.
struct RuleOfOp {
  std::string results, op, operand_types, result_types;
  std::optional<OpShardingRule> rule;

  std::string text() const {
    return fmt::format("{} = {} ({}) -> {}\n    {}", results, op, operand_types, result_types,
                       rule ? to_short_string(*rule) : "no rule");
  }
};

std::string joined_types(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += (text.empty() ? "" : ", ") + to_string(graph.type(value));
  return text;
}

std::vector<RuleOfOp> rules_of(const PyModule& module, bool conservative) {
  nb::gil_scoped_release released;
  const Graph& graph = *module.graph;
  const std::vector<std::string> names = value_names(graph);
  std::vector<RuleOfOp> rules;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.results.empty() || node.operands.empty()) return;
    RuleOfOp& made = rules.emplace_back();
    for (ValueId result : node.results)
      made.results += (made.results.empty() ? "" : ", ") + names[result.index];
    made.op = node.name();
    made.operand_types = joined_types(graph, node.operands);
    made.result_types = joined_types(graph, node.results);
    if (const auto rule = op_rule(graph, node, conservative).propagation) made.rule = *rule;
  });
  return rules;
}

void collect_values(const Graph& graph, RegionId region, std::vector<ValueId>& values) {
  for (ValueId arg : graph.region(region).args) values.push_back(arg);
  for (NodeId id : graph.region(region).nodes) {
    for (ValueId result : graph.node(id).results) values.push_back(result);
    for (RegionId inner : graph.node(id).regions) collect_values(graph, inner, values);
  }
}

int function_index(const Graph& graph, const std::string& function) {
  if (function.empty()) {
    const int main = main_function(graph);
    if (main < 0) throw_user("the module has several functions and no @main: name one");
    return main;
  }
  for (size_t f = 0; f < graph.functions.size(); ++f)
    if (graph.functions[f].name == function) return static_cast<int>(f);
  throw_user("the module has no function @{}", function);
}

// A finished propagation: the module with its shardings, and why each of them is there.
class Propagation {
 public:
  Propagation(Graph given)
      : names_(value_names(given)), before_(given), after_(given), graph_(std::move(given)) {
    prepare_for_propagation(graph_, {});
    engine_ = std::make_unique<PropagationEngine>(graph_, PropagationOptions{});
    engine_->run();
    explainer_ = std::make_unique<Explainer>(*engine_, names_);
    run_propagation_pipeline(after_, {});
  }

  std::string explain(const std::string& value, const std::string& function) const {
    return explainer_->explain(find(value, function));
  }
  std::string trace() const { return explainer_->trace(); }
  std::vector<std::string> warnings() const { return explainer_->warnings(); }
  const Graph& after() const { return after_; }

 private:
  // `3`, `%3` and `%3#1` are all understood.
  ValueId find(std::string value, const std::string& function) const {
    if (!value.starts_with('%')) value = "%" + value;
    const int index = function_index(before_, function);
    std::vector<ValueId> values;
    if (before_.functions[index].body.valid())
      collect_values(before_, before_.functions[index].body, values);
    for (ValueId id : values)
      if (names_[id.index] == value || "%" + before_.value(id).name == value) return id;
    throw_user("@{} has no value {}", before_.functions[index].name, value);
  }

  std::vector<std::string> names_;
  Graph before_, after_, graph_;
  std::unique_ptr<PropagationEngine> engine_;
  std::unique_ptr<Explainer> explainer_;
};

// The number of an argument of a function by that number, or by the name that the text has for it.
size_t argument_index(const Graph& graph, const Function& function, nb::handle key) {
  if (nb::isinstance<nb::int_>(key)) {
    const auto index = nb::cast<int64_t>(key);
    if (index >= 0 && index < static_cast<int64_t>(function.arg_types.size())) return index;
    throw_user("@{} has no argument {}; it has {}", function.name, index,
               function.arg_types.size());
  }
  std::string name = text_of_object(key);
  if (!name.starts_with('%')) name = "%" + name;
  const std::vector<std::string> names = value_names(graph);
  std::vector<std::string> known;
  const std::vector<ValueId>& args = graph.region(function.body).args;
  for (size_t i = 0; i < args.size(); ++i) {
    known.push_back(names[args[i].index]);
    if (known[i] == name || "%" + graph.value(args[i]).name == name) return i;
  }
  throw_user("@{} has no argument {}; it has {}", function.name, name, fmt::join(known, ", "));
}

}  // namespace

Graph with_shardings(const Graph& graph, const std::string& function, nb::handle mesh,
                     nb::handle shardings) {
  Graph changed = graph;
  Function& entry = changed.functions[function_index(graph, function)];
  MeshPtr on;
  if (!mesh.is_none()) {
    Mesh named = *mesh_of_object(mesh);
    if (named.name.empty()) named.name = "mesh";
    on = std::make_shared<const Mesh>(std::move(named));
    for (const MeshPtr& own : changed.meshes)
      if (own->same_devices(*on)) on = own;
    if (std::ranges::count(changed.meshes, on) == 0) {
      if (changed.find_mesh(on->name))
        throw_user("the module has a mesh @{} already, {}, and {} was given", on->name,
                   to_string(*changed.find_mesh(on->name)), to_string(*on));
      changed.meshes.push_back(on);
    }
  } else {
    for (const MeshPtr& own : changed.meshes)
      if (!on && !own->axes.empty()) on = own;
  }
  if (shardings.is_none()) return changed;
  if (!on) throw_user("shardings speak of axes of a mesh; the module has none, so give mesh=");
  entry.arg_attrs.resize(entry.arg_types.size());
  auto put = [&](size_t i, nb::handle what) {
    if (what.is_none()) return;
    const Type& type = entry.arg_types[i];
    ShardingSpec spec = sharding_of_object(what, on, type.shape.size());
    spec.mesh = on;
    verify(spec, type.shape);
    entry.arg_attrs[i].set(kShardingAttr, ShardingAttr{std::move(spec)});
  };
  if (nb::isinstance<nb::dict>(shardings)) {
    for (auto [key, what] : nb::borrow<nb::dict>(shardings))
      put(argument_index(graph, entry, key), what);
  } else {
    size_t i = 0;
    for (nb::handle what : shardings) {
      if (i == entry.arg_types.size())
        throw_user("@{} has {} arguments, and more shardings were given", entry.name, i);
      put(i++, what);
    }
  }
  return changed;
}

namespace {

std::vector<std::optional<ShardingSpec>> border_shardings(const Propagation& self, bool results) {
  const Graph& graph = self.after();
  const Function& function = graph.functions[function_index(graph, "")];
  const auto& attrs = results ? function.result_attrs : function.arg_attrs;
  std::vector<std::optional<ShardingSpec>> list(results ? function.result_types.size()
                                                        : function.arg_types.size());
  for (size_t i = 0; i < attrs.size(); ++i)
    if (const ShardingSpec* spec = sharding_in(attrs[i])) list[i] = *spec;
  return list;
}

void bind_propagation(nb::module_& m) {
  nb::class_<RuleOfOp>(m, "RuleOfOp", "An op of a module, with its rule.")
      .def_ro("results", &RuleOfOp::results)
      .def_ro("op", &RuleOfOp::op)
      .def_ro("operand_types", &RuleOfOp::operand_types)
      .def_ro("result_types", &RuleOfOp::result_types)
      .def_ro("rule", &RuleOfOp::rule, "None if the op has no rule.")
      .def("__str__", &RuleOfOp::text)
      .def("__repr__", &RuleOfOp::text);
  nb::class_<Propagation>(m, "Propagation",
                          "Shardings that were spread to every tensor, and why they are there.")
      .def("explain", &Propagation::explain, "value"_a, "function"_a = "",
           "Why a value (%3, %arg0) has its sharding: the chain back to what was given.")
      .def("trace", &Propagation::trace, "Every change in order, with its cause.")
      .def_prop_ro("warnings", &Propagation::warnings, "Conflicts, and ops without a rule.")
      .def_prop_ro(
          "module",
          [](const Propagation& self) {
            return PyModule{std::make_shared<const Graph>(self.after())};
          },
          "The module with its shardings.")
      .def_prop_ro(
          "arguments", [](const Propagation& self) { return border_shardings(self, false); },
          "The shardings of the arguments of @main; None for one that has none.")
      .def_prop_ro(
          "results", [](const Propagation& self) { return border_shardings(self, true); },
          "The shardings of the results of @main.")
      .def("__str__", [](const Propagation& self) { return print_module(self.after(), {}); });
}

PyModule run_passes(const PyModule& self, const std::string& pipeline, nb::object tell) {
  PassContext context;
  if (const auto line = line_callback(std::move(tell)))
    context.warning = [line](std::string_view text) { line(std::string(text)); };
  std::vector<PassCall> calls = parse_pipeline(pipeline);
  return interruptible([&](std::stop_token) {
    Graph graph = *self.graph;
    run_pipeline(graph, calls, context);
    return PyModule{std::make_shared<const Graph>(std::move(graph))};
  });
}

}  // namespace

void bind_registration(nb::module_& m);  // registration.cc

void bind_rules(nb::module_& m) {
  bind_rule(m);
  bind_registration(m);
  bind_propagation(m);
  auto module = nb::borrow<nb::class_<PyModule>>(m.attr("Module"));
  module
      .def("rules", &rules_of, "conservative"_a = false,
           "The rule of every op. If conservative, without factors along which elements move.")
      .def(
          "argument_names",
          [](const PyModule& self, const std::string& entry) {
            const Graph& graph = *self.graph;
            const Function& function = graph.functions[function_index(graph, entry)];
            const std::vector<std::string> names = value_names(graph);
            std::vector<std::string> list;
            if (!function.body.valid()) return list;
            for (ValueId arg : graph.region(function.body).args) {
              const std::string& own = graph.value(arg).name;
              list.push_back(own.empty() ? names[arg.index].substr(1) : own);
            }
            return list;
          },
          "entry"_a = "",
          "The names of the arguments of a function, as plans and messages have them.")
      .def(
          "propagate",
          [](const PyModule& self, nb::object shardings, nb::object mesh) {
            Graph graph = with_shardings(*self.graph, "", mesh, shardings);
            return interruptible(
                [&](std::stop_token) { return std::make_unique<Propagation>(std::move(graph)); });
          },
          "shardings"_a = nb::none(), "mesh"_a = nb::none(),
          "Spreads the module's shardings, and those given here for arguments by number or name, "
          "to every tensor.")
      .def(
          "explain",
          [](const PyModule& self, const std::string& value) {
            nb::gil_scoped_release released;
            return Propagation(*self.graph).explain(value, "");
          },
          "value"_a, "Why a value has its sharding, by propagation.")
      .def(
          "run_passes",
          [](nb::handle self, nb::handle passes) {
            return nb::module_::import_("cleave.pipelines").attr("run_passes")(self, passes);
          },
          "passes"_a,
          "A new module: text as --pass-pipeline has it, or a list of names and of pairs of a name "
          "and options.")
      .def("__str__", [](const PyModule& self) { return print_module(*self.graph, {}); })
      .def("__repr__",
           [](nb::handle self) {
             return nb::str(nb::module_::import_("cleave.pictures").attr("module_repr")(self));
           })
      .def("_repr_html_", [](nb::handle self) {
        return nb::str(nb::module_::import_("cleave.pictures").attr("module_html")(self));
      });
  m.def("run_passes", &run_passes, "module"_a, "pipeline"_a, "tell"_a = nb::none());
  m.def(
      "passes",
      [] {
        std::map<std::string, std::vector<std::string>> names;
        for (const auto& [name, pass] : pass_registry().passes()) names[name] = pass.options;
        return names;
      },
      "The passes by name, with the names of their options.");
}

}  // namespace cleave::python
