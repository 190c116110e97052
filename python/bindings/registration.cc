#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "algebra.h"
#include "arrays.h"
#include "cleave/core/error.h"
#include "cleave/discover/register.h"
#include "cleave/runtime/ops_custom.h"
#include "tensors.h"

// Ops that Python makes known: kernels over NumPy arrays, rules and types as functions of the call.
namespace cleave::python {
namespace {

using namespace nb::literals;

// A function of Python that any thread may call, and let go.
using HeldFunction = std::shared_ptr<nb::object>;
HeldFunction held(nb::object function) {
  return HeldFunction(new nb::object(std::move(function)), [](nb::object* object) {
    if (!Py_IsInitialized()) return;
    nb::gil_scoped_acquire locked;
    delete object;
  });
}

AttrMap attrs_of_dict(const nb::dict& attrs) {
  AttrMap map;
  for (auto [key, value] : attrs) {
    const auto name = nb::cast<std::string>(key);
    if (nb::isinstance<nb::bool_>(value))
      map[name] = nb::cast<bool>(value);
    else if (nb::isinstance<nb::int_>(value))
      map[name] = nb::cast<int64_t>(value);
    else if (nb::isinstance<nb::float_>(value))
      map[name] = nb::cast<double>(value);
    else if (nb::isinstance<nb::str>(value))
      map[name] = nb::cast<std::string>(value);
    else
      map[name] = nb::cast<std::vector<int64_t>>(value);
  }
  return map;
}

nb::dict dict_of_attrs(const AttrDict& attrs) {
  nb::dict dict;
  for (const auto& [name, value] : attr_map_of(attrs))
    dict[name.c_str()] = std::visit([](const auto& v) { return nb::object(nb::cast(v)); }, value);
  return dict;
}

// What a function of Python raises, in one line with the name of the op.
template <typename F>
auto called(const std::string& name, F call) {
  nb::gil_scoped_acquire locked;
  try {
    return call();
  } catch (nb::python_error& error) {
    std::string text = text_of_object(error.value());
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (error.matches(nb::module_::import_("cleave._core").attr("UserError")))
      throw UserError(text);
    throw_user("{}: {}: {}", name, nb::cast<std::string>(error.type().attr("__name__")), text);
  }
}

using TypeTuple = std::pair<std::string, Shape>;  // dtype, shape

TypeTuple tuple_of(const Type& type) { return {std::string(name(type.dtype)), type.shape}; }
Type type_of(const TypeTuple& given) {
  const auto dtype = dtype_from_name(given.first);
  if (!dtype) throw_user("there is no dtype '{}'", given.first);
  return Type::tensor(*dtype, given.second);
}

std::vector<Array> call_kernel(const std::string& name, const nb::object& function,
                               const nb::dict& keywords, std::span<const Array> operands) {
  nb::list arrays;
  for (const Array& operand : operands) arrays.append(object_of_array(operand));
  const nb::object answer = function(*arrays, **keywords);
  if (answer.is_none()) throw_user("{}: its kernel returns None, and no array", name);
  std::vector<Array> results;
  if (nb::isinstance<nb::tuple>(answer) || nb::isinstance<nb::list>(answer)) {
    for (nb::handle one : answer) results.push_back(array_of_object(one));
  } else {
    results.push_back(array_of_object(answer));
  }
  return results;
}

KernelOfCall kernel_of(const std::string& name, nb::object function) {
  return [name, kept = held(std::move(function))](const AttrDict& attrs,
                                                  std::span<const Array> operands) {
    return called(name, [&] { return call_kernel(name, *kept, dict_of_attrs(attrs), operands); });
  };
}

// Calls a function with what it may ask of a call: cleave.registering.Call.
nb::object ask(const std::string& name, const nb::object& function, std::span<const Type> operands,
               std::span<const Type> results, const AttrDict& attrs) {
  nb::list in, out;
  for (const Type& type : operands) in.append(nb::cast(tuple_of(type)));
  for (const Type& type : results) out.append(nb::cast(tuple_of(type)));
  return function(name, in, out, dict_of_attrs(attrs));
}

nb::object ask_of_node(const std::string& name, const nb::object& function, const Graph& graph,
                       const Node& node) {
  std::vector<Type> operands, results;
  for (ValueId value : node.operands) operands.push_back(graph.type(value));
  for (ValueId value : node.results) results.push_back(graph.type(value));
  return ask(name, function, operands, results, call_attributes(node));
}

RuleSource rule_source(const std::string& name, nb::object rule) {
  if (rule.is_none()) return {};
  if (nb::isinstance<nb::str>(rule)) return nb::cast<std::string>(rule);
  if (nb::isinstance<OpShardingRule>(rule))
    return [made = nb::cast<OpShardingRule>(rule)](const Graph&, const Node&) { return made; };
  return [name, kept = held(std::move(rule))](const Graph& graph, const Node& node) {
    return called(name, [&]() -> OpShardingRule {
      const nb::object answer = ask_of_node(name, *kept, graph, node);
      if (answer.is_none()) return {};
      if (nb::isinstance<OpShardingRule>(answer)) return nb::cast<OpShardingRule>(answer);
      return RuleSource(nb::cast<std::string>(answer)).function()(graph, node);
    });
  };
}

PartialSource partial_source(const std::string& name, nb::object partial) {
  if (partial.is_none()) return {};
  if (!PyCallable_Check(partial.ptr())) return nb::cast<std::vector<std::string>>(partial);
  return [name, kept = held(std::move(partial))](const Graph& graph, const Node& node) {
    return called(name, [&]() -> PartialTransfer {
      const PartialSource rows(
          nb::cast<std::vector<std::string>>(ask_of_node(name, *kept, graph, node)));
      return rows.function() ? rows.function()(graph, node) : PartialTransfer{};
    });
  };
}

TypesOfCall types_source(const std::string& name, nb::object types) {
  if (types.is_none()) return {};
  return
      [name, kept = held(std::move(types))](std::span<const Type> operands, const AttrDict& attrs) {
        return called(name, [&] {
          std::vector<Type> made;
          for (const TypeTuple& each :
               nb::cast<std::vector<TypeTuple>>(ask(name, *kept, operands, {}, attrs)))
            made.push_back(type_of(each));
          return made;
        });
      };
}

// Flops; bytes are those of operands and results.
CostOfCall cost_source(const std::string& name, nb::object cost) {
  if (cost.is_none()) return {};
  return [name, kept = held(std::move(cost))](const Graph& graph, const Node& node) {
    return called(name, [&] {
      OpCost made;
      for (ValueId value : node.operands)
        made.bytes_read += static_cast<double>(graph.type(value).byte_count());
      for (ValueId value : node.results)
        made.bytes_written += static_cast<double>(graph.type(value).byte_count());
      made.flops = nb::cast<double>(ask_of_node(name, *kept, graph, node));
      return made;
    });
  };
}

void register_op_of_python(const std::string& name, nb::object kernel, nb::object types,
                           nb::object rule, nb::object partial, nb::object cost, bool replace) {
  OpRegistration op;
  op.kernel = kernel_of(name, std::move(kernel));
  op.types = types_source(name, std::move(types));
  op.rule = rule_source(name, std::move(rule));
  op.partial = partial_source(name, std::move(partial));
  op.cost = cost_source(name, std::move(cost));
  op.replace = replace;
  register_op(name, std::move(op));
}

// (operands, attributes) of each call to try.
using SampleTuple = std::pair<std::vector<TypeTuple>, nb::dict>;

void verify_rule_of_python(const std::string& name, nb::object kernel, nb::object rule,
                           nb::object partial, const std::vector<SampleTuple>& samples,
                           std::vector<int> worlds, uint64_t seed) {
  Operator op;
  op.name = name;
  KernelOfCall run;
  if (kernel.is_none()) {
    const RegisteredOpPtr known = find_registered(name);
    if (!known || !known->kernel)
      throw_user("{} has no kernel that could be run; register_op gives it one", name);
    run = known->kernel;
  } else {
    run = kernel_of(name, std::move(kernel));
  }
  op.run = [run](const AttrMap& attrs, std::span<const Array> operands) {
    return run(attr_dict_of(attrs), operands);
  };
  for (const auto& [types, attrs] : samples) {
    Sample sample;
    for (const TypeTuple& each : types) {
      const Type type = type_of(each);
      sample.operands.push_back({type.dtype, type.shape});
    }
    sample.attrs = attrs_of_dict(attrs);
    op.samples.push_back(std::move(sample));
  }
  const RuleSource source = rule_source(name, std::move(rule));
  const PartialSource rows = partial_source(name, std::move(partial));
  DiscoverOptions options;
  options.worlds = std::move(worlds);
  options.seed = seed;
  interruptible([&](std::stop_token stop) {
    options.stop = stop;
    verify_rule(op, source, rows, options);
    return true;
  });
}

nb::object custom_call_of_python(const std::string& name, nb::handle tensors, const nb::dict& attrs,
                                 const std::vector<TypeTuple>& results) {
  std::vector<Type> types;
  for (const TypeTuple& each : results) types.push_back(type_of(each));
  Tensors made =
      custom_call(name, to_tensors(tensors), attr_dict_of(attrs_of_dict(attrs)), std::move(types));
  if (made.size() == 1) return nb::cast(made[0]);
  nb::list list;
  for (const Tensor& each : made) list.append(each);
  return nb::tuple(list);
}

}  // namespace

void bind_registration(nb::module_& m) {
  m.def("register_op", &register_op_of_python, "name"_a, "kernel"_a, "types"_a.none(),
        "rule"_a.none(), "partial"_a.none(), "cost"_a.none(), "replace"_a);
  m.def(
      "register_rule",
      [](const std::string& name, nb::object rule, nb::object partial, bool replace) {
        register_rule(name, rule_source(name, std::move(rule)),
                      partial_source(name, std::move(partial)), replace);
      },
      "name"_a, "rule"_a, "partial"_a.none(), "replace"_a);
  m.def("verify_rule", &verify_rule_of_python, "name"_a, "kernel"_a.none(), "rule"_a,
        "partial"_a.none(), "samples"_a, "worlds"_a, "seed"_a);
  m.def("unregister_rule", &unregister_rule, "name"_a);
  m.def("unregister_op", &unregister_op, "name"_a);
  m.def("registered", &registered_names);
  m.def("has_kernel", [](const std::string& name) {
    const RegisteredOpPtr op = find_registered(name);
    return op && op->kernel;
  });
  m.def("custom_call", &custom_call_of_python, "name"_a, "tensors"_a, "attrs"_a, "results"_a);
}

}  // namespace cleave::python
