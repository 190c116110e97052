#include <algorithm>

#include "cleave/ops/custom_call/custom_call.h"
#include "cleave/ops/custom_call/family.h"
#include "cleave/ops/expansions.h"
#include "cleave/ops/expr.h"

// Custom calls as ops.
namespace cleave {
namespace {

// "lapack_dgeqrf_ffi" -> "geqrf"
std::string_view expanded_routine(const Node& node) {
  const std::string_view name = node.attrs.get_string("call_target_name");
  if (name == "Qr" || name == "QrDecompositionBlock") return "geqrf";
  if (name == "ProductOfElementaryHouseholderReflectors") return "orgqr";
  return linalg_routine(name);
}

// All but the last dimension.
Shape without_last(Shape shape) {
  shape.pop_back();
  return shape;
}

// LAPACK's trsm, as JAX calls it, is a triangular_solve.
std::vector<ValueId> expand_trsm(GraphBuilder& b, const Node& node,
                                 std::span<const ValueId> operands) {
  const Attribute* config = node.attrs.find("mhlo.backend_config");
  const DictAttr* dict = config ? config->as<DictAttr>() : nullptr;
  if (!dict) return {};
  auto letter = [&](const char* name) { return static_cast<char>(dict->dict.get_int(name)); };
  const char form = letter("trans_x");
  AttrDict attrs;
  attrs.set("left_side", letter("side") == 'L');
  attrs.set("lower", letter("uplo") == 'L');
  attrs.set("unit_diagonal", letter("diag") == 'U');
  attrs.set("transpose_a", EnumAttr{"stablehlo.transpose", form == 'N'   ? "NO_TRANSPOSE"
                                                           : form == 'T' ? "TRANSPOSE"
                                                                         : "ADJOINT"});
  return {b.emit("stablehlo.triangular_solve", {operands[0], operands[1]}, std::move(attrs))};
}

// Householder's reflectors I - tau v v^H, one per column, as LAPACK stores them: v below the
// diagonal, with a one on it that is not stored.
struct Columns {
  GraphBuilder& b;
  Shape shape;  // [..., m, n]
  size_t rank;
  Expr row, column;  // places

  Columns(GraphBuilder& builder, const Shape& matrix)
      : b(builder),
        shape(matrix),
        rank(matrix.size()),
        row(iota(b, DType::I32, matrix, static_cast<int64_t>(rank) - 2)),
        column(iota(b, DType::I32, matrix, static_cast<int64_t>(rank) - 1)) {}

  int64_t dim(size_t from_end) const { return static_cast<int64_t>(rank - from_end); }
  // [..., m] of matrix column j; and such a vector along every column.
  Expr at(Expr matrix, int64_t j) const {
    std::vector<int64_t> start(rank, 0), limit = matrix.shape();
    start.back() = j;
    limit.back() = j + 1;
    return reshape(slice(matrix, start, limit), without_last(matrix.shape()));
  }
  Expr spread(Expr vector) const { return broadcast(vector, shape, all_dims(rank - 1)); }
  Expr spread_number(Expr number) const { return broadcast(number, shape, all_dims(rank - 2)); }
  // v^H of a matrix: [..., n], along every row.
  Expr project(Expr v, Expr matrix) const {
    const Expr sums = sum(spread(maybe_conj(v)) * matrix, {dim(2)});
    std::vector<int64_t> dims = all_dims(rank - 2);
    dims.push_back(dim(1));
    return broadcast(sums, shape, dims);
  }
  Expr reflect(Expr matrix, Expr v, Expr tau) const {
    return matrix - spread_number(tau) * spread(v) * project(v, matrix);
  }
};

Expr lift(Expr x, DType dtype) { return is_complex(dtype) ? complex(x, zeros_like(x)) : x; }
Expr real_part(Expr x) { return is_complex(x.dtype()) ? real(x) : x; }

// The reflector of x from place j on: beta is what stands at j afterwards.
struct Reflector {
  Expr v, tau, beta;
  Reflector(Expr x, int64_t j) {
    const auto last = static_cast<int64_t>(x.shape().size()) - 1;
    const Expr place = iota(*x.b, DType::I32, x.shape(), last);
    const Expr below = compare("GT", place, static_cast<double>(j));
    const Expr here = compare("EQ", place, static_cast<double>(j));
    auto spread = [&](Expr number) { return broadcast(number, x.shape(), all_dims(last)); };
    const Expr alpha = sum(select(here, x, 0.0), {last});
    const Expr rest = select(below, x, 0.0);
    Expr square = real_part(sum(rest * maybe_conj(rest), {last}));
    Expr whole = square + real_part(alpha * maybe_conj(alpha));
    Expr nothing = compare("EQ", square, 0.0);
    if (is_complex(x.dtype()))
      nothing = binary("stablehlo.and", nothing, compare("EQ", imag(alpha), 0.0));
    const Expr length = sqrt(select(nothing, number_like(1, whole), whole));
    const Expr sign = compare("GE", real_part(alpha), 0.0);
    const Expr turned = lift(select(sign, -length, length), x.dtype());
    const Expr divisor = select(nothing, number_like(1, alpha), alpha - turned);
    tau = select(nothing, zeros_like(alpha), (turned - alpha) / turned);
    beta = select(nothing, alpha, turned);
    v = select(here, number_like(1, x), rest / spread(divisor));
  }
};

std::vector<ValueId> expand_geqrf(GraphBuilder& b, const Node& node,
                                  std::span<const ValueId> operands) {
  if (node.results.size() != 2) return {};
  Expr a = expr(b, operands[0]);
  const Columns columns(b, a.shape());
  const Shape& shape = columns.shape;
  const int64_t count = std::min(shape[columns.rank - 2], shape[columns.rank - 1]);
  std::vector<Expr> factors;
  for (int64_t j = 0; j < count; ++j) {
    const Reflector h(columns.at(a, j), j);
    const auto number = static_cast<double>(j);
    const Expr later = compare("GT", columns.column, number);
    const Expr same = compare("EQ", columns.column, number);
    const Expr below = binary("stablehlo.and", same, compare("GT", columns.row, number));
    const Expr here = binary("stablehlo.and", same, compare("EQ", columns.row, number));
    const Expr reflected = columns.reflect(a, h.v, maybe_conj(h.tau));
    a = select(later, reflected,
               select(below, columns.spread(h.v), select(here, columns.spread_number(h.beta), a)));
    Shape one = h.tau.shape();
    one.push_back(1);
    factors.push_back(reshape(h.tau, one));
  }
  if (factors.empty()) return {};
  return {a, concatenate(factors, columns.dim(2))};
}

std::vector<ValueId> expand_orgqr(GraphBuilder& b, const Node& node,
                                  std::span<const ValueId> operands) {
  if (node.results.size() != 1) return {};
  const Expr stored = expr(b, operands[0]), taus = expr(b, operands[1]);
  const Columns columns(b, stored.shape());
  const Expr diagonal = compare("EQ", columns.row, columns.column);
  Expr q = convert(diagonal, stored.dtype());
  for (int64_t j = taus.shape().back(); j-- > 0;) {
    const Expr x = columns.at(stored, j);
    const Expr place = iota(b, DType::I32, x.shape(), columns.dim(2));
    const auto number = static_cast<double>(j);
    const Expr v = select(compare("EQ", place, number), number_like(1, x),
                          select(compare("GT", place, number), x, 0.0));
    std::vector<int64_t> start(taus.shape().size(), 0), limit = taus.shape();
    start.back() = j;
    limit.back() = j + 1;
    q = columns.reflect(q, v, reshape(slice(taus, start, limit), without_last(taus.shape())));
  }
  return {q};
}

// A program runs LAPACK itself; derivatives need the ops behind a routine that has no rule. erf is
// one op, which is fused, and whose rule the call has as well.
std::vector<ValueId> expand_call(GraphBuilder& b, const Node& node,
                                 std::span<const ValueId> operands, ExpandUse use) {
  if (use == kInPrograms) {
    if (node.attrs.get_string("call_target_name") != "mhlo.erf") return {};
    return {b.emit("chlo.erf", {operands[0]})};
  }
  const std::string_view routine = expanded_routine(node);
  if (routine == "trsm") return expand_trsm(b, node, operands);
  if (routine == "geqrf") return expand_geqrf(b, node, operands);
  if (routine == "orgqr" || routine == "ungqr") return expand_orgqr(b, node, operands);
  return {};
}

}  // namespace

void add_custom_call_expansions(OpRegistry& r) {
  set_expansion(r, "stablehlo.custom_call", expand_call, kInPrograms | kInDerivatives);
}

}  // namespace cleave
