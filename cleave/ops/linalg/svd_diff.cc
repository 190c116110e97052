#include <algorithm>

#include "cleave/ops/linalg/linalg_diff.h"

// A = U diag(s) V^H with U [m, k] and V [n, k], k = min(m, n):
//   D = U^H A' V,  s' = re diag(D),  F_ij = 1 / (s_j^2 - s_i^2)
//   U' = U (F * (D S + S D^H) + i im diag(D) / S) + (1 - U U^H) A' V / S
//   V' = V (F * (S D + D^H S))                    + (1 - V V^H) A'^H U / S
// Singular vectors of complex matrices are free up to a common phase: as in JAX it is V's that
// stands still. What does not depend on the phase has the derivative that it ought to have.
namespace cleave {
namespace {

const AttrDict* config_of(const Node& node) {
  const Attribute* config = node.attrs.find("mhlo.backend_config");
  const DictAttr* dict = config ? config->as<DictAttr>() : nullptr;
  return dict ? &dict->dict : nullptr;
}

// The decomposition once more, where only the values were asked for.
std::vector<ValueId> with_vectors(const DiffContext& c, AttrDict config) {
  std::vector<Type> types;
  for (ValueId result : c.results) types.push_back(c.b.type(result));
  const Shape a = operand_expr(c).shape();
  const int64_t k = std::min(a[a.size() - 1], a[a.size() - 2]);
  types[2].shape = types[3].shape = a;
  types[2].shape.back() = k;
  types[3].shape[a.size() - 2] = k;
  config.set("mode", int_attr('S', DType::U8));
  AttrDict attrs = c.node.attrs;
  attrs.set("mhlo.backend_config", DictAttr{std::move(config)});
  Graph& graph = c.b.graph();
  const NodeId node = graph.add_node(c.node.name(), {c.operand()}, std::move(types), attrs);
  graph.append(c.b.region(), node);
  return graph.node(node).results;
}

std::vector<int64_t> batch_and(int64_t rank, int64_t dim) {
  std::vector<int64_t> dims = all_dims(rank - 2);
  dims.push_back(dim);
  return dims;
}

struct Svd {
  Expr s, u, v;
  Expr f, inverse;       // [k, k]: F; 1 / s on the diagonal
  bool computed = true;  // the vectors, by the op itself
  bool tall = false, wide = false;

  explicit Svd(const DiffContext& c) : s(result_expr(c, 1)) {
    std::vector<ValueId> parts(c.results.begin(), c.results.end());
    if (const AttrDict* config = config_of(c.node); config && config->get_int("mode", 0) == 'N') {
      parts = with_vectors(c, *config);
      computed = false;
    }
    const Shape a = operand_expr(c).shape();
    const auto rank = static_cast<int64_t>(a.size());
    tall = a[rank - 2] > a[rank - 1];
    wide = a[rank - 2] < a[rank - 1];
    u = expr(c.b, parts[2]);
    v = adjoint(expr(c.b, parts[3]));
    const int64_t k = s.shape().back();
    require(u.shape().back() == k && v.shape().back() == k, c.node,
            "the vectors that full_matrices adds to those of a {}x{} matrix may be any basis of "
            "what is left, and have no derivative; ask for full_matrices=False",
            a[rank - 2], a[rank - 1]);
    Shape square = s.shape();
    square.push_back(k);
    const Expr columns = broadcast(s, square, batch_and(rank, rank - 1));
    const Expr rows = broadcast(s, square, batch_and(rank, rank - 2));
    const Expr eye = identity_like(columns);
    f = convert(1.0 / ((columns - rows) * (columns + rows) + eye) - eye, u.dtype());
    const Expr zeros = convert(compare("EQ", columns, 0.0), columns.dtype());
    inverse = convert(eye * (1.0 / (columns + zeros) - zeros), u.dtype());
  }
  // Columns times s, rows times s, columns divided by s.
  Expr scaled(Expr x) const { return x * columns_of(x); }
  Expr scaled_rows(Expr x) const { return swap_last_two(scaled(swap_last_two(x))); }
  Expr unscaled(Expr x) const { return x / columns_of(x); }
  Expr columns_of(Expr x) const {
    const auto rank = static_cast<int64_t>(x.shape().size());
    return broadcast(convert(s, x.dtype()), x.shape(), batch_and(rank, rank - 1));
  }
};

Expr outside(Expr basis, Expr x) { return x - matmul(basis, matmul(adjoint(basis), x)); }

}  // namespace

std::vector<ValueId> jvp_svd(const DiffContext& c, Expr t) {
  const Svd d(c);
  const Expr av = matmul(t, d.v);
  const Expr inner = matmul(adjoint(d.u), av);
  std::vector<ValueId> results(c.results.size());
  const Expr values = diagonal_of(inner);
  results[1] = is_complex(values.dtype()) ? real(values) : values;
  if (!d.computed) return results;
  const Expr right = d.scaled(inner), left = d.scaled_rows(inner);
  Expr turn = d.f * (right + adjoint(right));
  if (is_complex(turn.dtype())) turn = turn + d.inverse * (inner - adjoint(inner)) * 0.5;
  Expr du = matmul(d.u, turn);
  Expr dv = matmul(d.v, d.f * (left + adjoint(left)));
  if (d.tall) du = du + d.unscaled(outside(d.u, av));
  if (d.wide) dv = dv + d.unscaled(outside(d.v, matmul(adjoint(t), d.u)));
  results[2] = du;
  results[3] = adjoint(dv);
  return results;
}

std::vector<ValueId> vjp_svd(const DiffContext& c, std::span<const ValueId> ct) {
  const Svd d(c);
  const Expr cu = maybe_conj(d.u), cv = maybe_conj(d.v);
  const Expr vt = swap_last_two(d.v);
  Expr inner, total;
  auto add = [](Expr& sum, Expr part) { sum = sum.valid() ? sum + part : part; };
  if (ct[1].valid()) {
    const Expr gs = convert(expr(c.b, ct[1]), d.u.dtype());
    const auto rank = static_cast<int64_t>(d.u.shape().size());
    add(inner, identity_like(d.f) * broadcast(gs, d.f.shape(), batch_and(rank, rank - 1)));
  }
  if (ct[2].valid()) {
    const Expr gu = expr(c.b, ct[2]);
    const Expr turned = matmul(swap_last_two(d.u), gu);
    const Expr skew = turned - adjoint(turned);
    add(inner, d.scaled(d.f * skew));
    if (is_complex(skew.dtype())) add(inner, d.inverse * skew * 0.5);
    if (d.tall) add(total, matmul(outside(cu, d.unscaled(gu)), vt));
  }
  if (ct[3].valid()) {
    const Expr gv = adjoint(expr(c.b, ct[3]));
    const Expr turned = matmul(vt, gv);
    add(inner, d.scaled_rows(d.f * (turned - adjoint(turned))));
    if (d.wide) add(total, matmul(cu, adjoint(outside(cv, d.unscaled(gv)))));
  }
  if (inner.valid()) add(total, matmul(matmul(cu, inner), vt));
  return {total.id};
}

}  // namespace cleave
