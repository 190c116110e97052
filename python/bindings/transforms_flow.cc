#include "cleave/core/error.h"
#include "cleave/runtime/ops_control.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/transforms/associative_scan.h"
#include "cleave/transforms/flow.h"
#include "traces.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

Names numbered(size_t count) {
  Names names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("[{}]", i));
  return names;
}

nb::list named_of(const std::string& name, const nb::callable& f, const nb::list& args,
                  Names names) {
  const Tensors leaves = leaves_of(args);
  const Trace trace = traced(f, leaves, std::move(names));
  return list_of(flow_detail::record_named(name, trace, leaves, {}));
}

// fwd gives the results and then the residuals, which `bwd` takes first, before cotangents.
nb::list custom_vjp_of(const nb::callable& f, const nb::callable& fwd, const nb::callable& bwd,
                       const nb::list& args, const Names& names) {
  const Tensors leaves = leaves_of(args);
  const Trace call = traced(f, leaves, names);
  const Trace forward = traced(fwd, leaves, names);
  const size_t results = call.graph.functions[0].result_types.size();
  Tensors cotangents, taken;  // their values do not matter
  const std::vector<Type>& types = forward.graph.functions[0].result_types;
  for (size_t i = 0; i < types.size(); ++i)
    (i < results ? cotangents : taken).push_back(zeros(types[i].shape, types[i].dtype));
  taken.insert(taken.end(), cotangents.begin(), cotangents.end());
  const Trace backward = traced(bwd, taken, numbered(taken.size()));
  flow_detail::check_rules(call, forward, backward);
  return list_of(flow_detail::record_named("cleave.custom_vjp", call, leaves,
                                           flow_detail::rules_text(forward, backward)));
}

nb::list cond_of(nb::handle condition, const nb::callable& yes, const nb::callable& no,
                 const nb::list& args) {
  const Tensors leaves = leaves_of(args);
  const Trace first = traced(yes, leaves, numbered(leaves.size()));
  const Trace second = traced(no, leaves, numbered(leaves.size()));
  return list_of(flow_detail::record_cond(to_tensor(condition), first, second, leaves));
}

nb::list while_of(const nb::callable& condition, const nb::callable& body, const nb::list& init) {
  const Tensors carry = leaves_of(init);
  const Trace test = traced(condition, carry, numbered(carry.size()));
  const Trace step = traced(body, carry, numbered(carry.size()));
  return list_of(flow_detail::record_while(test, step, carry));
}

nb::list scan_of(const nb::callable& body, const nb::list& init, const nb::list& xs, bool reverse) {
  const Tensors carry = leaves_of(init), inputs = leaves_of(xs);
  Tensors one = carry;
  for (const Tensor& x : inputs) one.push_back(flow_detail::slice_like(x));
  const Trace step = traced(body, one, numbered(one.size()));
  return list_of(flow_detail::record_scan(step, carry, inputs, reverse));
}

nb::list switch_of(nb::handle index, const std::vector<nb::callable>& branches) {
  std::vector<std::function<Tensors()>> all;
  for (const nb::callable& branch : branches)
    all.push_back([&branch] { return leaves_of(branch()); });
  return list_of(switch_case(to_tensor(index), all));
}

}  // namespace

void bind_flow(nb::module_& m) {
  m.def("stop_gradient", [](const nb::list& leaves) {
    return list_of(flow_detail::record_stop(leaves_of(leaves)));
  });
  m.def("named", &named_of, "name"_a, "f"_a, "leaves"_a, "names"_a);
  m.def("custom_vjp", &custom_vjp_of, "f"_a, "fwd"_a, "bwd"_a, "leaves"_a, "names"_a);
  m.def("cond", &cond_of, "condition"_a, "yes"_a, "no"_a, "leaves"_a);
  m.def("while_loop", &while_of, "condition"_a, "body"_a, "carry"_a);
  m.def("scan", &scan_of, "body"_a, "carry"_a, "inputs"_a, "reverse"_a);
  m.def("switch_case", &switch_of, "index"_a, "branches"_a);
  m.def("interleave", &associative_scan_detail::interleave, "even"_a, "odd"_a, "axis"_a);
}

}  // namespace cleave::python
