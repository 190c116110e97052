#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "algebra.h"
#include "arrays.h"
#include "cleave/core/error.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/gradient.h"
#include "cleave/discover/library.h"
#include "cleave/discover/mesh_check.h"
#include "cleave/discover/module_operator.h"
#include "cleave/discover/more_samples.h"
#include "cleave/discover/op_call.h"
#include "cleave/discover/register.h"
#include "cleave/discover/registry_operator.h"
#include "cleave/discover/replay.h"
#include "cleave/report/page.h"
#include "cleave/report/report.h"
#include "leavable.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

// A report with the operator that it is about, which later questions run again.
struct PyDiscovery {
  Operator op;
  nb::object function;                 // that `op` calls, if it is one of Python
  std::vector<nb::object> generators;  // functions of Python that make operands
  DiscoverOptions options;
  Discovery found;
  CallsUnderWay calls;
};

// The functions may lead back to the report: the garbage collector must see them.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<PyDiscovery>(self)->function.ptr());
  for (const nb::object& generator : nb::inst_ptr<PyDiscovery>(self)->generators)
    Py_VISIT(generator.ptr());
  return 0;
}
int clear(PyObject* self) {
  nb::inst_ptr<PyDiscovery>(self)->function.reset();
  for (nb::object& generator : nb::inst_ptr<PyDiscovery>(self)->generators) generator.reset();
  return 0;
}
PyType_Slot collected[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                           {Py_tp_clear, reinterpret_cast<void*>(clear)},
                           {0, nullptr}};

AttrValue attr_of_object(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  return nb::cast<std::vector<int64_t>>(value);
}

nb::object object_of_attr(const AttrValue& value) {
  return std::visit([](const auto& v) { return nb::object(nb::cast(v)); }, value);
}

// What a function of Python raises means that it does not take these arrays.
std::vector<Array> call_function(const nb::object& function, const AttrMap& attrs,
                                 std::span<const Array> operands) {
  nb::gil_scoped_acquire locked;
  try {
    nb::list arrays;
    for (const Array& operand : operands) arrays.append(object_of_array(operand));
    nb::dict keywords;
    for (const auto& [name, value] : attrs) keywords[name.c_str()] = object_of_attr(value);
    const nb::object answer = function(*arrays, **keywords);
    std::vector<Array> results;
    if (nb::isinstance<nb::tuple>(answer) || nb::isinstance<nb::list>(answer)) {
      for (nb::handle one : answer) results.push_back(array_of_object(one));
    } else {
      results.push_back(array_of_object(answer));
    }
    return results;
  } catch (nb::python_error& error) {
    const std::string kind = nb::cast<std::string>(error.type().attr("__name__"));
    throw_user("{}: {}", kind, text_of_object(error.value()));
  }
}

// `self` outlives the operator.
Operator operator_of_function(const std::string& name, PyDiscovery& self,
                              const std::vector<std::string>& dims) {
  Operator op;
  op.name = name;
  op.run = [&self](const AttrMap& attrs, std::span<const Array> operands) {
    nb::gil_scoped_acquire locked;
    const CallsUnderWay::Call call(self.calls, attrs, operands);
    return call_function(self.function, attrs, operands);
  };
  op.dim_attrs = dims;
  return op;
}

// What a generator of Python gives for an operand: an array of its shape, or None.
std::optional<Array> call_generator(const std::string& name, const nb::object& function,
                                    const FillContext& context, NumberStream& random) {
  nb::gil_scoped_acquire locked;
  try {
    const nb::object answer =
        function(context.operand, nb::tuple(nb::cast(context.shape)),
                 std::string(cleave::name(context.dtype)), random.next() >> 1);
    if (answer.is_none()) return std::nullopt;
    const Array array = array_of_object(answer);
    if (array.shape() != context.shape)
      throw_user("generator '{}': operand {} is {}, and it gave an array of {}", name,
                 context.operand, to_string(context.shape), to_string(array.shape()));
    if (array.dtype() == context.dtype) return array;
    return from_doubles(context.dtype, context.shape, to_doubles(array));
  } catch (nb::python_error& error) {
    const std::string kind = nb::cast<std::string>(error.type().attr("__name__"));
    throw_user("generator '{}': {}: {}", name, kind, text_of_object(error.value()));
  }
}

// (name, numbers or a function[, description]); a function is kept in `self`, which outlives it.
InputGenerator generator_of_tuple(PyDiscovery& self, nb::handle given) {
  const nb::tuple parts = nb::cast<nb::tuple>(given);
  if (parts.size() < 2)
    throw_user("discover: a generator is a name with numbers or with a function");
  const std::string name = nb::cast<std::string>(parts[0]);
  InputGenerator generator;
  if (PyCallable_Check(nb::handle(parts[1]).ptr())) {
    const size_t index = self.generators.size();
    self.generators.push_back(nb::borrow(parts[1]));
    const nb::object documentation = self.generators.back().attr("__doc__");
    generator.name = name;
    generator.description = "Numbers of the caller's own.";
    if (nb::isinstance<nb::str>(documentation)) {
      const std::string text = nb::cast<std::string>(documentation);
      if (!text.empty()) generator.description = text.substr(0, text.find('\n'));
    }
    generator.make = [&self, index, name](const FillContext& context, NumberStream& random) {
      return call_generator(name, self.generators[index], context, random);
    };
  } else {
    auto numbers = nb::cast<std::vector<double>>(parts[1]);
    if (numbers.empty()) throw_user("generator '{}': it has no numbers", name);
    generator = generator_of_values(name, std::move(numbers));
  }
  if (parts.size() > 2) generator.description = nb::cast<std::string>(parts[2]);
  return generator;
}

Operator known_operator(const std::string& name) {
  if (const Operator* known = find_operator(name)) return *known;
  if (auto registered = find_registry_operator(name)) return std::move(*registered);
  throw_user("discover: unknown operator '{}'; cleave.operators() lists them", name);
}

// (dtype, shape, domain, limit); an empty dtype or domain: as it was.
using OperandTuple = std::tuple<std::string, Shape, std::string, int64_t>;

void set_operand(TensorDesc& desc, const OperandTuple& given) {
  const auto& [dtype, shape, domain, limit] = given;
  static const std::vector<std::pair<std::string, Domain>> words = {
      {"any", Domain::Any},          {"nonzero", Domain::NonZero}, {"positive", Domain::Positive},
      {"bool", Domain::Bool},        {"index", Domain::Index},     {"sorted", Domain::Sorted},
      {"definite", Domain::Definite}};
  constexpr int64_t kMostElements = int64_t{1} << 24;  // an operator is run thousands of times
  if (num_elements(shape) > kMostElements)
    throw_user(
        "discover: an operand of {} has more than {} elements; rules do not depend on sizes, so "
        "give smaller shapes",
        to_string(shape), kMostElements);
  desc.shape = shape;
  if (!dtype.empty()) {
    const auto found = dtype_from_name(dtype);
    if (!found) throw_user("discover: there is no dtype '{}'", dtype);
    desc.dtype = *found;
  }
  if (domain.empty()) return;
  const auto it = std::ranges::find(words, domain, [](const auto& word) { return word.first; });
  if (it == words.end())
    throw_user("domain '{}' is none of any, nonzero, positive, bool, index:LIMIT, sorted, definite",
               domain);
  desc.domain = it->second;
  desc.limit = limit;
  if (desc.domain == Domain::Index && limit < 1)
    throw_user("domain index: it needs a limit of 1 or more, as in index:6");
}

AttrMap attrs_of(const nb::dict& values) {
  AttrMap attrs;
  for (auto [key, value] : values) attrs[nb::cast<std::string>(key)] = attr_of_object(value);
  return attrs;
}

// `attrs` are of each call; none: those of the samples.
void apply_calls(Operator& op, const std::vector<std::vector<OperandTuple>>& calls,
                 const std::vector<nb::dict>& attrs) {
  if (calls.empty()) return;
  if (op.samples.empty()) op.samples.emplace_back();
  std::vector<Sample> samples;
  for (const std::vector<OperandTuple>& call : calls)
    for (Sample sample : op.samples) {
      if (!attrs.empty()) sample.attrs = attrs_of(attrs.at(&call - calls.data()));
      if (sample.operands.empty()) sample.operands.resize(call.size());
      if (sample.operands.size() != call.size())
        throw_user("discover: {} takes {} operands, and {} shapes were given", op.name,
                   sample.operands.size(), call.size());
      for (size_t i = 0; i < call.size(); ++i) set_operand(sample.operands[i], call[i]);
      samples.push_back(std::move(sample));
    }
  op.samples = std::move(samples);
}

// Every value of an attribute with every sample.
void apply_attr(Operator& op, const std::string& name, const std::vector<AttrValue>& values,
                bool is_function) {
  std::vector<Sample> samples;
  for (const Sample& sample : op.samples) {
    if (!is_function && !sample.attrs.contains(name))
      throw_user("discover: {} has no attribute {}{}{}", op.name, name,
                 sample.attrs.empty() ? "; it has none" : "; it has: ", to_string(sample.attrs));
    for (const AttrValue& value : values) {
      Sample changed = sample;
      changed.attrs[name] = value;
      const bool known = std::ranges::any_of(
          samples, [&](const Sample& s) { return to_string(s) == to_string(changed); });
      if (!known) samples.push_back(std::move(changed));
    }
  }
  op.samples = std::move(samples);
}

std::unique_ptr<PyDiscovery> run_discovery(
    nb::object what, const std::string& name, const std::vector<std::vector<OperandTuple>>& calls,
    const nb::dict& attrs, const std::vector<std::string>& dims, std::vector<int> worlds,
    uint64_t seed, int threads, bool gradient, bool shrink, bool every_witness,
    const nb::list& generators, nb::object progress, const std::vector<nb::dict>& call_attrs,
    const std::string& signature, const std::map<std::string, std::string>& versions,
    const std::vector<std::string>& operand_names, bool random_is_result, double call_seconds) {
  auto made = std::make_unique<PyDiscovery>();
  const bool is_function = PyCallable_Check(what.ptr());
  if (is_function) made->function = what;
  if (nb::isinstance<PyModule>(what))
    made->op = operator_of_module(name, *nb::cast<const PyModule&>(what).graph);
  else if (is_function)
    made->op = operator_of_function(name, *made, dims);
  else
    made->op = known_operator(name);
  apply_calls(made->op, calls, call_attrs);
  if (made->op.samples.empty())
    throw_user("discover: give a shape for each operand of {}, such as shapes=[(8, 3), (8, 3)]",
               name);
  for (auto [key, values] : attrs) {
    std::vector<AttrValue> list;
    for (nb::handle value : values) list.push_back(attr_of_object(value));
    apply_attr(made->op, nb::cast<std::string>(key), list, is_function);
  }
  made->options.worlds = std::move(worlds);
  made->options.seed = seed;
  made->options.threads = threads;
  made->options.shrink_witnesses = shrink;
  made->options.every_family = every_witness;
  for (nb::handle generator : generators)
    made->options.generators.push_back(generator_of_tuple(*made, generator));
  made->options.versions = versions;
  made->options.versions.emplace(
      "cleave", nb::cast<std::string>(nb::module_::import_("cleave._core").attr("__version__")));
  made->options.random_is_result = random_is_result;
  if (!signature.empty()) made->op.signature = signature;
  if (!operand_names.empty()) made->op.operand_names = operand_names;
  const auto tell = line_callback(std::move(progress));
  CallsUnderWay& under_way = made->calls;
  const auto look = [&] {
    if (const std::string call = under_way.longer_than(call_seconds); !call.empty())
      throw_user(
          "discover {}: one call ({}) has run for {:g} s and is left behind; give other shapes, "
          "domains or values of its arguments, or a function that raises ValueError for what it "
          "should not be given; call_seconds is the limit",
          name, call, call_seconds);
  };
  auto work = [made = std::move(made), is_function, gradient, tell](std::stop_token stop) mutable {
    if (is_function) add_samples_of_other_ranks(made->op);
    if (gradient) made->op = gradient_of(made->op);
    DiscoverOptions options = made->options;
    options.stop = stop;
    if (tell)
      options.progress = [&](const std::string& op, double share) {
        tell(fmt::format("{:3.0f} % {}", 100 * share, op));
      };
    made->found = discover(made->op, options);
    return std::move(made);
  };
  return leavable(std::move(work), under_way, look);
}

std::string emitted(const PyDiscovery& self, const std::string& form) {
  const Discovery& found = self.found;
  if (form == "cleave") return emit_cleave(found);
  if (form == "dtensor") return emit_dtensor(found);
  if (form == "shardy") return emit_shardy(found);
  if (form == "tests") return emit_cleave_tests(self.op, found);
  if (form == "dtensor-tests") return emit_dtensor_tests(found);
  throw_user("emit '{}': there are cleave, dtensor, shardy, tests and dtensor-tests", form);
}

// {"name": ..., "signature": ..., "arguments": [(name, is_list, keyword_only, default)],
// "operands":
// [(argument, place)], "fixed": {name: literal}}
TorchOverload overload_of(const nb::dict& said) {
  TorchOverload overload;
  overload.name = nb::cast<std::string>(said["name"]);
  overload.signature = nb::cast<std::string>(said["signature"]);
  using Argument = std::tuple<std::string, bool, bool, std::string>;
  for (const auto& [name, is_list, keyword_only, fallback] :
       nb::cast<std::vector<Argument>>(said["arguments"]))
    overload.arguments.push_back({name, is_list, keyword_only, fallback});
  overload.operands = nb::cast<std::vector<std::pair<int, int>>>(said["operands"]);
  for (auto [name, value] : nb::cast<nb::dict>(said["fixed"]))
    overload.fixed[nb::cast<std::string>(name)] = nb::cast<std::string>(value);
  return overload;
}

std::string on_mesh(const PyDiscovery& self, const std::vector<int>& sizes) {
  constexpr int64_t kMostDevices = 256;
  int64_t devices = 1;
  for (int size : sizes) {
    if (size < 2) throw_user("on_mesh: axes need at least 2 devices each");
    devices *= size;
  }
  if (sizes.size() != 2 || devices > kMostDevices)
    throw_user("on_mesh: two axes are needed, such as (2, 2), of {} devices at most", kMostDevices);
  return interruptible([&](std::stop_token stop) {
    DiscoverOptions options = self.options;
    options.stop = stop;
    return report_mesh(check_mesh(self.op, self.found, sizes, options));
  });
}

// S(0) -> P(sum), and S(0) -> result 1: P(sum) of an operator with several results.
template <typename R>
std::string rule_text(const Discovery& found, const R& rule) {
  std::string text = to_string(rule);
  const size_t arrow = text.find("-> ");
  if (found.num_results > 1 && arrow != std::string::npos &&
      text.find("result ") == std::string::npos)
    text.insert(arrow + 3, fmt::format("result {}: ", rule.result));
  return text;
}

nb::object dict_of(const std::optional<ParameterRole>& role) {
  if (!role) return nb::none();
  nb::dict dict;
  dict["name"] = role->name;
  dict["how"] = role->how;
  return dict;
}

nb::dict analysis_of(const PyDiscovery& self) {
  const Analysis& analysis = self.found.analysis;
  nb::dict dict;
  dict["category"] = std::string(name(analysis.category));
  dict["deterministic"] = analysis.deterministic;
  dict["reason"] = analysis.reason;
  dict["dim_parameter"] = dict_of(analysis.dim_parameter);
  dict["keepdim_parameter"] = dict_of(analysis.keepdim_parameter);
  nb::list others, properties;
  for (const ParameterRole& role : analysis.other_parameters) others.append(dict_of(role));
  for (const MathProperty& property : analysis.properties) {
    nb::dict one;
    one["name"] = property.name;
    one["about"] = property.about;
    one["how"] = property.how;
    one["tests"] = property.tests;
    properties.append(one);
  }
  dict["other_parameters"] = others;
  dict["mathematical_properties"] = properties;
  return dict;
}

// By sample: the call, the shapes of its results, and every combination with its verdict.
nb::list decisions_of(const PyDiscovery& self) {
  nb::list samples;
  for (const SampleDecisions& sample : self.found.samples) {
    nb::list rows;
    for (const Decision& decision : sample.decisions) {
      const Combination& c = decision.combination;
      nb::list operands;
      for (const Placement& placement : c.operands) operands.append(to_string(placement));
      rows.append(nb::make_tuple(nb::tuple(operands), c.result, to_string(c.placement),
                                 std::string(name(decision.verdict.kind)), decision.verdict.tests,
                                 decision.worlds, decision.verdict.reason));
    }
    samples.append(nb::make_tuple(to_string(sample.sample), sample.result_shapes, rows));
  }
  return samples;
}

// What refutes a combination of a sample, made as small as it gets: devices, whole operands, what
// each device holds of them, and the first number that differs. None if it is not refuted.
nb::object witness_of(const PyDiscovery& self, size_t sample, size_t decision, bool smallest) {
  const SampleDecisions& decided = self.found.samples.at(sample);
  const std::optional<Witness>& found = decided.decisions.at(decision).verdict.witness;
  if (!found) return nb::none();
  const Witness witness =
      interruptible([&](std::stop_token) { return smallest ? shrink(self.op, *found) : *found; });
  nb::list operands, devices;
  for (const Array& operand : witness.operands) operands.append(object_of_array(operand));
  for (const std::vector<Array>& parts : witness.devices) {
    nb::list of_operand;
    for (const Array& part : parts) of_operand.append(object_of_array(part));
    devices.append(of_operand);
  }
  nb::dict made;
  made["devices"] = witness.w;
  made["operands"] = operands;
  made["parts"] = devices;
  made["element"] = witness.element;
  made["expected"] = witness.expected;
  made["actual"] = witness.actual;
  made["text"] = short_text(witness);
  return made;
}

// The operator under a name that custom calls know, with the rules that were found.
void register_found(const PyDiscovery& self, const std::string& name, bool replace) {
  Operator op = self.op;
  if (self.function.is_valid()) {
    const std::shared_ptr<nb::object> held(new nb::object(self.function), [](nb::object* object) {
      nb::gil_scoped_acquire locked;
      delete object;
    });
    op.run = [held](const AttrMap& attrs, std::span<const Array> operands) {
      return call_function(*held, attrs, operands);
    };
  }
  register_discovered(name, op, self.found, replace);
}

void bind_report(nb::module_& m) {
  nb::class_<PyDiscovery>(m, "DiscoveryCore", nb::type_slots(collected))
      .def_prop_ro("op", [](const PyDiscovery& self) { return self.found.op; })
      .def_prop_ro("num_results", [](const PyDiscovery& self) { return self.found.num_results; })
      .def("table", [](const PyDiscovery& self) { return report_table(self.found); })
      .def("yaml", [](const PyDiscovery& self) { return report_yaml(self.found); })
      .def("json", [](const PyDiscovery& self) { return report_json(self.found); })
      .def("page_data",
           [](const PyDiscovery& self) {
             return interruptible([&](std::stop_token) {
               return report_page(self.op, self.found, self.options.shrink_witnesses);
             });
           })
      .def("rules",
           [](const PyDiscovery& self) {
             nb::list rules;
             for (const DiscoveredRule& rule : self.found.rules)
               rules.append(nb::make_tuple(rule_text(self.found, rule), rule.condition,
                                           std::string(name(rule.kind)), rule.tests,
                                           rule.justification, rule.implied));
             return rules;
           })
      .def("refuted",
           [](const PyDiscovery& self) {
             nb::list rules;
             for (const RefutedRule& rule : self.found.refuted)
               rules.append(nb::make_tuple(
                   rule_text(self.found, rule), rule.reason,
                   rule.witness ? nb::cast(to_string(self.found.op, *rule.witness))
                                : nb::object(nb::none()),
                   rule.witness ? nb::cast(short_text(*rule.witness)) : nb::object(nb::none())));
             return rules;
           })
      .def("analysis", &analysis_of)
      .def("decisions", &decisions_of)
      .def("witness", &witness_of, "sample"_a, "decision"_a, "smallest"_a = true)
      .def("counts",
           [](const PyDiscovery& self) {
             const VerdictCounts counts = count_verdicts(self.found);
             nb::dict dict;
             dict["proved"] = counts.proved;
             dict["tested"] = counts.tested;
             dict["refuted"] = counts.refuted;
             dict["rejected"] = counts.rejected;
             dict["untestable"] = counts.untestable;
             return dict;
           })
      .def("emit", &emitted, "form"_a)
      .def("register", &register_found, "name"_a, "replace"_a)
      .def(
          "emit_overload",
          [](const PyDiscovery& self, const nb::dict& overload, const std::string& rule_file) {
            return rule_file.empty()
                       ? emit_dtensor(self.found, overload_of(overload))
                       : emit_dtensor_tests(self.found, overload_of(overload), rule_file);
          },
          "overload"_a, "rule_file"_a = "")
      .def("on_mesh", &on_mesh, "sizes"_a)
      .def(
          "replay",
          [](const PyDiscovery& self, const std::string& text) {
            const WitnessText witness = parse_witness(text);
            return interruptible([&](std::stop_token) { return replay(self.op, witness.witness); });
          },
          "witness"_a);
}

}  // namespace

void bind_discovery(nb::module_& m) {
  bind_report(m);
  m.def("discover", &run_discovery, "what"_a, "name"_a, "calls"_a, "attrs"_a, "dims"_a, "worlds"_a,
        "seed"_a, "threads"_a, "gradient"_a, "shrink"_a, "every_witness"_a, "generators"_a,
        "progress"_a.none(), "call_attrs"_a = std::vector<nb::dict>{}, "signature"_a = "",
        "versions"_a = std::map<std::string, std::string>(),
        "operand_names"_a = std::vector<std::string>(), "random_is_result"_a = false,
        "call_seconds"_a = 600.0);
  // A document of DiscoveryCore.page_data, perhaps with more fields, as a page.
  m.def(
      "discovery_page",
      [](const std::string& document, const std::string& name) {
        return report::page_of(report::discovery_report(document, name), "cleave discover " + name);
      },
      "document"_a, "name"_a);
  m.def("discovery_schema", [] { return std::string(report_schema()); });
  m.def("operators", [] {
    std::vector<std::pair<std::string, std::string>> list;
    for (const Operator& op : operator_library())
      list.emplace_back(op.name, to_string(op.samples.front()));
    for (const Graph& sample : registry_samples())
      list.emplace_back(sample.node(called_op(sample)).name(), to_string(sample_of(sample)));
    return list;
  });
}

}  // namespace cleave::python
