#include "cleave/ops/diff_util.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/reduce/reduction_body.h"

// Reductions by an operator that is known. Those with any other body are taken apart before they
// are differentiated.
namespace cleave {
namespace {

// One input of the reduction with its result, and the way between their shapes.
struct Part {
  GraphBuilder& b;
  Expr x, init, y;
  std::vector<int64_t> dims, kept;

  Part(const DiffContext& c, size_t i, size_t n)
      : b(c.b),
        x(operand_expr(c, i)),
        init(operand_expr(c, n + i)),
        y(result_expr(c, i)),
        dims(c.node.attrs.get_ints_or_empty("dimensions")),
        kept(other_dims(dims, x.shape().size())) {
    x = convert(x, y.dtype());
    init = convert(init, y.dtype());
  }
  Expr spread(Expr g) const { return broadcast(g, x.shape(), kept); }
  Expr spread_init(Expr g) const { return broadcast(g, y.shape(), {}); }

  // 1 where an element is the extremum.
  Expr marks() const { return convert(compare("EQ", x, spread(y)), y.dtype()); }
  Expr init_marks() const { return convert(compare("EQ", spread_init(init), y), y.dtype()); }

  // For each element, the product of all others: what stands before times what stands behind.
  Expr products_of_others() const {
    std::vector<int64_t> order = kept;
    order.insert(order.end(), dims.begin(), dims.end());
    int64_t n = 1;
    Shape rows, moved;
    for (int64_t d : kept) rows.push_back(x.shape()[d]);
    for (int64_t d : dims) n *= x.shape()[d];
    for (int64_t d : order) moved.push_back(x.shape()[d]);
    rows.push_back(n);
    const Expr flat = reshape(transpose(x, order), rows);
    const size_t last = kept.size();
    auto shifted = [&](Expr p, int64_t by) {
      std::vector<int64_t> low(last + 1, 0), high(last + 1, 0);
      low[last] = by;
      high[last] = -by;
      return pad(p, 1, low, high);
    };
    Expr before = flat, behind = flat;
    for (int64_t step = 1; step < n; step *= 2) {
      before = before * shifted(before, step);
      behind = behind * shifted(behind, -step);
    }
    const Expr others = reshape(shifted(before, 1) * shifted(behind, -1), moved);
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
    return transpose(others, back);
  }
};

std::vector<Reducer> reducers_of(const DiffContext& c) {
  const auto reducers = recognise_reducers(c.b.graph(), c.node.regions[0]);
  require(reducers.has_value(), c.node, "has a body without a derivative rule");
  return *reducers;
}

bool is_extremum(Reducer reducer) { return reducer == Reducer::Max || reducer == Reducer::Min; }

std::vector<ValueId> jvp_reduce(const DiffContext& c, std::span<const ValueId> t) {
  const size_t n = num_reduced(c.node);
  const std::vector<Reducer> reducers = reducers_of(c);
  std::vector<ValueId> results(n);
  for (size_t i = 0; i < n; ++i) {
    if (!t[i].valid() && !t[n + i].valid()) continue;
    const Part part(c, i, n);
    const DType dtype = part.y.dtype();
    auto tangent = [&](size_t operand) { return convert(expr(c.b, t[operand]), dtype); };
    ValueId total;
    if (reducers[i] == Reducer::Sum) {
      if (t[i].valid()) total = sum(tangent(i), part.dims);
      if (t[n + i].valid()) total = add_tangents(c.b, total, part.spread_init(tangent(n + i)));
    } else if (is_extremum(reducers[i])) {
      const Expr marks = part.marks();
      Expr count = sum(marks, part.dims);
      if (t[i].valid()) total = sum(tangent(i) * marks, part.dims);
      if (t[n + i].valid()) {
        count = count + part.init_marks();
        total = add_tangents(c.b, total, part.spread_init(tangent(n + i)) * part.init_marks());
      }
      total = expr(c.b, total) / binary("stablehlo.maximum", count, number_like(1, count));
    } else if (reducers[i] == Reducer::Prod) {
      if (t[i].valid())
        total =
            sum(tangent(i) * part.products_of_others(), part.dims) * part.spread_init(part.init);
      if (t[n + i].valid()) {
        const Expr product{&c.b, c.b.reduce(part.x, "stablehlo.multiply", 1, part.dims)};
        total = add_tangents(c.b, total, part.spread_init(tangent(n + i)) * product);
      }
    } else {
      fail(c.node, "has a body without a derivative rule");
    }
    results[i] = total;
  }
  return results;
}

std::vector<ValueId> vjp_reduce(const DiffContext& c, std::span<const ValueId> ct) {
  const size_t n = num_reduced(c.node);
  const std::vector<Reducer> reducers = reducers_of(c);
  std::vector<ValueId> results(2 * n);
  for (size_t i = 0; i < n; ++i) {
    if (!ct[i].valid()) continue;
    const Part part(c, i, n);
    const Expr g = expr(c.b, ct[i]);
    Expr to_x, to_init;
    if (reducers[i] == Reducer::Sum) {
      if (c.wants(i)) to_x = part.spread(g);
      if (c.wants(n + i)) to_init = sum_all(g);
    } else if (is_extremum(reducers[i])) {
      const Expr marks = part.marks();
      Expr count = sum(marks, part.dims);
      if (c.wants(n + i)) count = count + part.init_marks();
      const Expr share = g / binary("stablehlo.maximum", count, number_like(1, count));
      to_x = marks * part.spread(share);
      if (c.wants(n + i)) to_init = sum_all(share * part.init_marks());
    } else if (reducers[i] == Reducer::Prod) {
      if (c.wants(i))
        to_x = part.products_of_others() * part.spread(g * part.spread_init(part.init));
      if (c.wants(n + i)) {
        const Expr product{&c.b, c.b.reduce(part.x, "stablehlo.multiply", 1, part.dims)};
        to_init = sum_all(g * product);
      }
    } else {
      fail(c.node, "has a body without a derivative rule");
    }
    if (to_x.valid()) results[i] = convert(to_x, operand_expr(c, i).dtype());
    if (to_init.valid()) results[n + i] = convert(to_init, operand_expr(c, n + i).dtype());
  }
  return results;
}

}  // namespace

void add_reduce_derivatives(OpRegistry& r) {
  r.extend("stablehlo.reduce", [](OpDef& def) {
    def.jvp = jvp_reduce;
    def.vjp = vjp_reduce;
  });
}

}  // namespace cleave
