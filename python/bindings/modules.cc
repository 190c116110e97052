#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cleave/core/error.h"
#include "cleave/graph/json.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/models/module_source.h"
#include "cleave/plan/planner.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

PyModule module_of(Graph graph) { return {std::make_shared<const Graph>(std::move(graph))}; }

PyModule parse(const std::string& text, const std::string& name) {
  nb::gil_scoped_release released;
  return module_of(models::module_of_text(text, name));
}

// The module with names for the arguments of @main, which plans and messages then use; with layouts
// that its results are to have, one for each, "" for any; and with the result that is the same
// argument of the next step, by argument, -1 for none.
PyModule with_borders(const PyModule& self, const std::vector<std::string>& arguments,
                      const std::string& mesh, const std::vector<std::string>& results,
                      const std::vector<int64_t>& next) {
  nb::gil_scoped_release released;
  Graph graph = *self.graph;
  Function* main = graph.find_function("main");
  if (!main) throw_user("the module has no function @main");
  auto check = [](size_t given, size_t has, const char* what) {
    if (given != has) throw_user("@main has {} {}, and {} were given", has, what, given);
  };
  check(arguments.size(), main->arg_types.size(), "arguments");
  check(results.size(), main->result_types.size(), "results");
  check(next.size(), main->arg_types.size(), "arguments");
  main->arg_attrs.resize(next.size());
  for (size_t i = 0; i < next.size(); ++i)
    if (next[i] >= 0) main->arg_attrs[i].set(plan::kNextAttr, int_attr(next[i], DType::I64));
  const std::vector<ValueId>& values = graph.region(main->body).args;
  for (size_t i = 0; i < arguments.size(); ++i) graph.value(values[i]).name = arguments[i];
  Mesh named = parse_mesh(mesh);
  named.name = "mesh";
  MeshPtr own = graph.find_mesh("mesh");
  if (!own) graph.meshes.push_back(own = std::make_shared<const Mesh>(std::move(named)));
  main->result_attrs.resize(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].empty())
      main->result_attrs[i].set(kShardingAttr, ShardingAttr{parse_sharding(results[i], own)});
  return module_of(std::move(graph));
}

PyModule load(const std::string& source) {
  nb::gil_scoped_release released;
  return module_of(models::load_module(source));
}

const Function& entry_of(const PyModule& module, const std::string& entry) {
  const Function* function = module.graph->find_function(entry);
  if (!function) throw_user("the module has no function @{}", entry);
  return *function;
}

using TypeTuple = std::tuple<std::vector<int64_t>, std::string>;
std::vector<TypeTuple> tuples(const std::vector<Type>& types) {
  std::vector<TypeTuple> list;
  for (const Type& type : types)
    list.emplace_back(std::vector<int64_t>(type.shape.begin(), type.shape.end()),
                      std::string(name(type.dtype)));
  return list;
}

}  // namespace

void bind_modules(nb::module_& m) {
  nb::class_<PyModule>(m, "Module", "A StableHLO module that was read and verified.")
      .def_static("parse", &parse, "text"_a, "name"_a = "<string>",
                  "Reads StableHLO text or graph JSON.")
      .def_static("load", &load, "source"_a,
                  "Reads a file of StableHLO text or graph JSON, or a model by name: "
                  "'model:gpt?layers=2'.")
      .def("with_borders", &with_borders, "arguments"_a, "mesh"_a, "results"_a, "next"_a,
           "With names for the arguments of @main, layouts that its results are to have, and the "
           "results that are the same arguments of the next step.")
      .def_prop_ro("meshes",
                   [](const PyModule& self) {
                     std::vector<std::pair<std::string, std::string>> list;
                     for (const MeshPtr& mesh : self.graph->meshes)
                       list.emplace_back(mesh->name, to_string(*mesh));
                     return list;
                   })
      .def_prop_ro("name", [](const PyModule& self) { return self.graph->name; })
      .def_prop_ro("num_ops",
                   [](const PyModule& self) {
                     size_t count = 0;
                     self.graph->walk([&](NodeId) { ++count; });
                     return count;
                   })
      .def(
          "arguments",
          [](const PyModule& self, const std::string& entry) {
            return tuples(entry_of(self, entry).arg_types);
          },
          "entry"_a = "main", "Shapes and dtypes of the arguments of a function.")
      .def(
          "results",
          [](const PyModule& self, const std::string& entry) {
            return tuples(entry_of(self, entry).result_types);
          },
          "entry"_a = "main", "Shapes and dtypes of the results of a function.")
      .def(
          "text",
          [](const PyModule& self, bool locations) {
            nb::gil_scoped_release released;
            return print_module(*self.graph, {.locations = locations});
          },
          "locations"_a = false, "The module as StableHLO text.")
      .def(
          "json", [](const PyModule& self) { return graph_to_json(*self.graph); },
          "The module as graph JSON.");
}

}  // namespace cleave::python
