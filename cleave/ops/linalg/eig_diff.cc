#include "cleave/ops/linalg/linalg_diff.h"

// Eigenvalues of a general matrix, A v_i = w_i v_i and u_i^H A = w_i u_i^H:
//   w_i' = u_i^H A' v_i / u_i^H v_i
// Results of geev: real and imaginary parts of w (w itself for complex matrices), left vectors,
// right vectors, info. Vectors have no derivative, as in JAX, so that of eigenvalues ends at first
// order.
namespace cleave {
namespace {

struct Eig {
  Expr left, right, norms;  // norms: [..., n]
  bool is_real = false;

  explicit Eig(const DiffContext& c) : is_real(!is_complex(operand_expr(c).dtype())) {
    const Attribute* config = c.node.attrs.find("mhlo.backend_config");
    const DictAttr* dict = config ? config->as<DictAttr>() : nullptr;
    AttrDict both = dict ? dict->dict : AttrDict{};
    for (const char* side : {"compute_left", "compute_right"})
      both.set(side, int_attr('V', DType::U8));
    AttrDict attrs = c.node.attrs;
    attrs.set("mhlo.backend_config", DictAttr{std::move(both)});
    std::vector<Type> types;
    for (ValueId result : c.results) types.push_back(c.b.type(result));
    Graph& graph = c.b.graph();
    const NodeId node = graph.add_node(c.node.name(), {c.operand()}, std::move(types), attrs);
    graph.append(c.b.region(), node);
    left = expr(c.b, graph.node(node).results[num_values()]);
    right = expr(c.b, graph.node(node).results[num_values() + 1]);
    norms = column_sums(maybe_conj(left) * right);
  }
  size_t num_values() const { return is_real ? 2 : 1; }
  static Expr column_sums(Expr x) { return sum(x, {static_cast<int64_t>(x.shape().size()) - 2}); }
};

[[noreturn]] void no_vectors(const DiffContext& c) {
  fail(c.node,
       "eigenvectors of a general matrix have no derivative, and eigenvalues only a first one; "
       "ask for eigenvalues alone, or use the decomposition of a symmetric matrix");
}
bool asks_for_vectors(const Node& node) {
  const Attribute* config = node.attrs.find("mhlo.backend_config");
  const DictAttr* dict = config ? config->as<DictAttr>() : nullptr;
  return !dict || dict->dict.get_int("compute_left", 'V') == 'V' ||
         dict->dict.get_int("compute_right", 'V') == 'V';
}

}  // namespace

std::vector<ValueId> jvp_eig(const DiffContext& c, Expr t) {
  if (asks_for_vectors(c.node)) no_vectors(c);
  const Eig e(c);
  const Expr moved = matmul(convert(t, e.right.dtype()), e.right);
  const Expr w = Eig::column_sums(maybe_conj(e.left) * moved) / e.norms;
  std::vector<ValueId> results(c.results.size());
  results[0] = e.is_real ? real(w) : w;
  if (e.is_real) results[1] = imag(w);
  return results;
}

std::vector<ValueId> vjp_eig(const DiffContext& c, std::span<const ValueId> ct) {
  const Eig e(c);
  for (size_t i = e.num_values(); i < ct.size(); ++i)
    if (ct[i].valid()) no_vectors(c);
  Expr g;
  if (e.is_real) {
    const Expr re = materialize(c, ct[0], c.result(0)), im = materialize(c, ct[1], c.result(1));
    g = complex(re, -im);
  } else if (ct[0].valid()) {
    g = expr(c.b, ct[0]);
  } else {
    return {ValueId{}};
  }
  const Shape shape = e.right.shape();
  std::vector<int64_t> dims = all_dims(shape.size() - 2);
  dims.push_back(static_cast<int64_t>(shape.size()) - 1);
  const Expr scaled = maybe_conj(e.left) * broadcast(g / e.norms, shape, dims);
  const Expr total = matmul(scaled, swap_last_two(e.right));
  return {e.is_real ? real(total).id : total.id};
}

}  // namespace cleave
