#include "cleave/core/error.h"
#include "cleave/transforms/compile.h"
#include "cleave/transforms/grad.h"
#include "cleave/transforms/vmap_function.h"
#include "traces.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

std::vector<std::pair<size_t, size_t>> ranges_of(const std::vector<size_t>& counts) {
  std::vector<std::pair<size_t, size_t>> ranges;
  size_t at = 0;
  for (size_t count : counts) {
    ranges.emplace_back(at, at + count);
    at += count;
  }
  return ranges;
}

// The leaves of some arguments that have a derivative; argument i has counts[i] leaves.
std::vector<size_t> smooth(const Tensors& leaves, const std::vector<size_t>& counts,
                           const std::vector<size_t>& arguments) {
  return grad_detail::smooth_leaves(leaves, {ranges_of(counts)}, arguments);
}

nb::tuple value_and_grad_of(const nb::callable& f, const nb::list& args, Names names,
                            const std::vector<size_t>& counts, const std::vector<size_t>& by) {
  const Tensors leaves = leaves_of(args);
  const std::vector<size_t> wanted = smooth(leaves, counts, by);
  Trace trace = traced(f, leaves, std::move(names));
  const grad_detail::ValueAndGrad made = [&] {
    nb::gil_scoped_release released;
    return grad_detail::value_and_grad(std::move(trace), leaves, wanted);
  }();
  return nb::make_tuple(list_of(made.values), list_of(made.cotangents));
}

nb::tuple jvp_of(const nb::callable& f, const nb::list& args, const nb::list& tangents,
                 Names names) {
  const Tensors leaves = leaves_of(args), directions = leaves_of(tangents);
  Trace trace = traced(f, leaves, std::move(names));
  const grad_detail::Jvp made = [&] {
    nb::gil_scoped_release released;
    return grad_detail::jvp(std::move(trace), leaves, directions);
  }();
  return nb::make_tuple(list_of(made.values), list_of(made.tangents));
}

nb::tuple vjp_of(const nb::callable& f, const nb::list& args, Names names) {
  const Tensors leaves = leaves_of(args);
  const std::vector<size_t> wanted = smooth(leaves, {leaves.size()}, {0});
  Trace trace = traced(f, leaves, std::move(names));
  grad_detail::Pullback made = [&] {
    nb::gil_scoped_release released;
    return grad_detail::vjp(std::move(trace), leaves, wanted);
  }();
  nb::list values = list_of(made.values);
  return nb::make_tuple(values, nb::cast(std::move(made)));
}

Tensor jacobian_of(const nb::callable& f, const nb::list& args, Names names, size_t leaf,
                   bool forward) {
  const Tensors leaves = leaves_of(args);
  Trace trace = traced(f, leaves, std::move(names));
  nb::gil_scoped_release released;
  return grad_detail::jacobian(std::move(trace), leaves, leaf, forward);
}

// `finish` takes the number of results, and gives the place of the examples in each.
nb::list vmap_of(const nb::callable& f, const nb::list& args, const Names& names,
                 const std::vector<std::optional<int64_t>>& in, const nb::callable& finish,
                 int64_t size, const std::string& spmd_axis) {
  using namespace vmap_detail;
  std::vector<Leaf> leaves;
  const Tensors tensors = leaves_of(args);
  for (size_t i = 0; i < tensors.size(); ++i)
    leaves.push_back(checked_leaf(names[i], tensors[i], in[i]));
  const int64_t examples = num_examples(leaves, size);
  TraceScope scope;
  Tensors inside;
  for (const Leaf& leaf : leaves) inside.push_back(stand_in(scope, leaf));
  const Tensors results = leaves_of(f(list_of(inside)));
  const auto out = nb::cast<std::vector<std::optional<int64_t>>>(finish(results.size()));
  Traced body = scope.finish(results);
  return list_of(run(std::move(body), leaves, out, examples, spmd_axis));
}

struct PyTrace {
  Trace trace;
};

void bind_traces(nb::module_& m) {
  nb::class_<PyTrace>(m, "Trace", "A function of Tensors as a graph.")
      .def_prop_ro("text", [](const PyTrace& self) { return self.trace.text(); })
      .def_prop_ro("captures", [](const PyTrace& self) { return list_of(self.trace.captures); })
      .def("module",
           [](const PyTrace& self) {
             return PyModule{std::make_shared<const Graph>(self.trace.graph)};
           })
      .def(
          "replay",
          [](const PyTrace& self, const nb::list& leaves) {
            return list_of(self.trace.replay(leaves_of(leaves)));
          },
          "leaves"_a);
  m.def("trace", [](const nb::callable& f, const nb::list& leaves, Names names) {
    return PyTrace{traced(f, leaves_of(leaves), std::move(names))};
  });
}

}  // namespace

nb::list list_of(const Tensors& tensors) {
  nb::list list;
  for (const Tensor& tensor : tensors)
    list.append(tensor.valid() ? nb::cast(tensor) : nb::object(nb::none()));
  return list;
}

Tensors leaves_of(nb::handle list) {
  Tensors tensors;
  for (nb::handle object : list) tensors.push_back(object.is_none() ? Tensor() : to_tensor(object));
  return tensors;
}

Trace traced(const nb::callable& function, const Tensors& leaves, Names names) {
  TraceScope scope;
  Tensors inside;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].valid()) trace_detail::throw_empty_argument(names[i]);
    inside.push_back(scope.placeholder_like(leaves[i], names[i]));
  }
  const Tensors results = leaves_of(function(list_of(inside)));
  Names result_names;
  for (size_t i = 0; i < results.size(); ++i) result_names.push_back(fmt::format("[{}]", i));
  return trace_detail::finish(scope, results, std::move(names), std::move(result_names));
}

void bind_transforms(nb::module_& m) {
  nb::class_<grad_detail::Pullback>(m, "Pullback", "The backward part of a function.")
      .def("__call__", [](const grad_detail::Pullback& self, const nb::list& cotangents) {
        return list_of(self(leaves_of(cotangents)));
      });
  m.def("value_and_grad", &value_and_grad_of, "f"_a, "leaves"_a, "names"_a, "counts"_a, "by"_a);
  m.def("jvp", &jvp_of, "f"_a, "leaves"_a, "tangents"_a, "names"_a);
  m.def("vjp", &vjp_of, "f"_a, "leaves"_a, "names"_a);
  m.def("jacobian", &jacobian_of, "f"_a, "leaves"_a, "names"_a, "leaf"_a, "forward"_a);
  m.def("vmap", &vmap_of, "f"_a, "leaves"_a, "names"_a, "axes"_a, "finish"_a, "size"_a,
        "spmd_axis"_a);
  m.def("inside_another",
        [](const nb::list& leaves) { return compile_detail::inside_another(leaves_of(leaves)); });
  bind_traces(m);
}

}  // namespace cleave::python
