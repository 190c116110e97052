#include <limits>

#include "cleave/kernels/window.h"
#include "cleave/ops/diff_util.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/ops/reduce/window_attr.h"

// Sums over windows are convolutions with ones; extrema select. Windows with any other body are
// taken apart before they are differentiated.
namespace cleave {
namespace {

AttrDict window_attrs(const Window& window) {
  std::vector<int64_t> size, stride, base, dilation, low, high;
  for (const Window::Dim& dim : window.dims) {
    size.push_back(dim.size);
    stride.push_back(dim.stride);
    base.push_back(dim.base_dilation);
    dilation.push_back(dim.dilation);
    low.push_back(dim.low);
    high.push_back(dim.high);
  }
  AttrDict attrs;
  attrs.set("window_dimensions", ints_attr(size));
  attrs.set("window_strides", ints_attr(stride));
  attrs.set("base_dilations", ints_attr(base));
  attrs.set("window_dilations", ints_attr(dilation));
  attrs.set("padding", pairs_attr(low, high));
  return attrs;
}

Reducer reducer_of(const DiffContext& c) {
  const auto reducers = recognise_reducers(c.b.graph(), c.node.regions[0]);
  require(reducers && reducers->size() == 1 &&
              ((*reducers)[0] == Reducer::Sum || (*reducers)[0] == Reducer::Max ||
               (*reducers)[0] == Reducer::Min),
          c.node, "has a body without a derivative rule");
  return (*reducers)[0];
}

// Every element gets what the windows over it got: a sum over the windows of the cotangent, spread
// by the stride.
Expr spread_sum(Expr g, const Shape& shape, const Window& window) {
  Window back;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Window::Dim& dim = window.dims[d];
    const int64_t reach = (dim.size - 1) * dim.dilation;
    const int64_t windows = g.shape()[d];
    back.dims.push_back(
        {dim.size, dim.base_dilation, dim.stride, dim.dilation, reach - dim.low,
         dim.low + (shape[d] - 1) * dim.base_dilation - (windows - 1) * dim.stride});
  }
  GraphBuilder& b = *g.b;
  Graph& graph = b.graph();
  const ValueId zero = b.constant(0, g.dtype());
  const NodeId node = graph.add_node("stablehlo.reduce_window", {g.id, zero},
                                     {Type::tensor(g.dtype(), shape)}, window_attrs(back));
  add_scalar_body(graph, node, "stablehlo.add", g.dtype());
  graph.append(b.region(), node);
  return {&b, graph.node(node).results[0]};
}

const char* preference(Reducer reducer) { return reducer == Reducer::Max ? "GE" : "LE"; }

// For each window, the element of `payload` at the place of the extremum of x: the first of equals.
Expr select_and_gather(Expr x, Expr payload, const Window& window, const char* direction) {
  GraphBuilder& b = *x.b;
  Graph& graph = b.graph();
  const double worst = std::numeric_limits<double>::infinity() * (direction[0] == 'G' ? -1 : 1);
  const ValueId first = b.constant(worst, x.dtype()), zero = b.constant(0, payload.dtype());
  Shape shape;
  for (size_t d = 0; d < window.dims.size(); ++d)
    shape.push_back(num_windows(x.shape()[d], window.dims[d]));
  const NodeId node = graph.add_node(
      "stablehlo.reduce_window", {x.id, payload.id, first, zero},
      {Type::tensor(x.dtype(), shape), Type::tensor(payload.dtype(), shape)}, window_attrs(window));
  GraphBuilder body(graph, graph.add_region(node));
  std::vector<Expr> args;
  for (DType dtype : {x.dtype(), payload.dtype(), x.dtype(), payload.dtype()})
    args.push_back({&body, graph.add_argument(body.region(), Type::tensor(dtype, {}))});
  // The initial value gives way to an element as bad as itself.
  const Expr strictly = compare(direction, args[0], args[2]);
  const Expr untouched = compare("EQ", args[0], worst);
  const Expr stays = binary("stablehlo.and", strictly, unary("stablehlo.not", untouched));
  const ValueId best = select(stays, args[0], args[2]), taken = select(stays, args[1], args[3]);
  body.finish({best, taken});
  graph.append(b.region(), node);
  return {&b, graph.node(node).results[1]};
}

std::vector<ValueId> jvp_reduce_window(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[0].valid() && !t[1].valid()) return {ValueId{}};
  const Reducer reducer = reducer_of(c);
  if (reducer == Reducer::Sum) return jvp_linear(c, t);
  require(!t[1].valid(), c.node, "has no derivative by its initial value");
  const Expr x = operand_expr(c);
  return {select_and_gather(x, expr(c.b, t[0]), window_of(c.node, x.shape().size()),
                            preference(reducer))};
}

Expr select_and_scatter(Expr x, Expr g, const Window& window, const char* direction) {
  GraphBuilder& b = *x.b;
  Graph& graph = b.graph();
  AttrDict attrs = window_attrs(window);
  attrs.erase("base_dilations");
  attrs.erase("window_dilations");
  const ValueId zero = b.constant(0, x.dtype());
  const NodeId node = graph.add_node("stablehlo.select_and_scatter", {x.id, g.id, zero},
                                     {b.type(x.id)}, std::move(attrs));
  GraphBuilder body(graph, graph.add_region(node));
  const Type scalar = Type::tensor(x.dtype(), {});
  const Expr first{&body, graph.add_argument(body.region(), scalar)};
  const Expr second{&body, graph.add_argument(body.region(), scalar)};
  body.finish({compare(direction, first, second)});
  add_scalar_body(graph, node, "stablehlo.add", x.dtype());
  graph.append(b.region(), node);
  return {&b, graph.node(node).results[0]};
}

std::vector<ValueId> vjp_reduce_window(const DiffContext& c, std::span<const ValueId> ct) {
  const Reducer reducer = reducer_of(c);
  const Expr x = operand_expr(c), g = expr(c.b, ct[0]);
  const Shape shape = x.shape();
  const Window window = window_of(c.node, shape.size());
  require(!c.wants(1), c.node, "has no derivative by its initial value");
  if (reducer == Reducer::Sum) return {spread_sum(g, shape, window), ValueId{}};
  bool dilates = false, crops = false;
  for (const Window::Dim& dim : window.dims) {
    dilates |= dim.base_dilation != 1 || dim.dilation != 1;
    crops |= dim.low < 0 || dim.high < 0;
  }
  require(!dilates && !crops, c.node,
          "the reverse derivative of an extremum takes no dilations nor negative padding");
  return {select_and_scatter(x, g, window, preference(reducer)), ValueId{}};
}

// ---- select_and_scatter with a sum: linear in source and initial value

const char* direction_of(const DiffContext& c) {
  const Graph& graph = c.b.graph();
  const auto reducers = recognise_reducers(graph, c.node.regions[1]);
  const Region& select = graph.region(c.node.regions[0]);
  const Node& first = graph.node(select.nodes[0]);
  require(reducers && (*reducers)[0] == Reducer::Sum && select.nodes.size() == 2 &&
              first.name() == "stablehlo.compare" && first.operands == select.args,
          c.node, "has a derivative where it selects by a comparison and adds");
  const std::string_view direction = first.attrs.get_string("comparison_direction");
  return direction[0] == 'G' ? "GE" : "LE";
}
std::vector<ValueId> jvp_select_and_scatter(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[1].valid() && !t[2].valid()) return {ValueId{}};
  direction_of(c);
  return reemit(
      c.b, c.node,
      {c.operand(0), materialize(c, t[1], c.operand(1)).id, materialize(c, t[2], c.operand(2)).id});
}
std::vector<ValueId> vjp_select_and_scatter(const DiffContext& c, std::span<const ValueId> ct) {
  const Expr x = operand_expr(c), g = expr(c.b, ct[0]);
  return {ValueId{}, select_and_gather(x, g, window_of(c.node, x.shape().size()), direction_of(c)),
          c.wants(2) ? sum_all(g).id : ValueId{}};
}

}  // namespace

void add_window_derivatives(OpRegistry& r) {
  r.extend("stablehlo.reduce_window", [](OpDef& def) {
    def.jvp = jvp_reduce_window;
    def.vjp = vjp_reduce_window;
  });
  r.extend("stablehlo.select_and_scatter", [](OpDef& def) {
    def.jvp = jvp_select_and_scatter;
    def.vjp = vjp_select_and_scatter;
  });
}

}  // namespace cleave
