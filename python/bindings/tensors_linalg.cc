
#include "cleave/core/error.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_factorize.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_matrix.h"
#include "cleave/runtime/ops_reduction.h"
#include "tensors.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

nb::object qr_of(nb::handle a, const std::string& mode) {
  if (mode != "reduced" && mode != "complete" && mode != "r")
    throw_user("qr: mode is 'reduced', 'complete' or 'r', not '{}'", mode);
  Qr made = qr(to_tensor(a), mode == "complete");
  if (mode == "r") return nb::cast(made.r);
  return nb::make_tuple(made.q, made.r);
}

nb::object svd_of(nb::handle a, bool full_matrices, bool compute_uv) {
  if (!compute_uv) return nb::cast(svdvals(to_tensor(a)));
  Svd made = svd(to_tensor(a), full_matrices);
  return nb::make_tuple(made.u, made.s, made.vh);
}

void bind_factors(nb::module_& m) {
  m.def("qr", &qr_of, "a"_a, "mode"_a = "reduced");
  m.def("svd", &svd_of, "a"_a, "full_matrices"_a = true, "compute_uv"_a = true);
  m.def(
      "slogdet",
      [](nb::handle a) {
        LogDet made = slogdet(to_tensor(a));
        return nb::make_tuple(made.sign, made.logabs);
      },
      "a"_a);
  m.def(
      "lu_factor",
      [](nb::handle a) {
        Lu made = lu_factor(to_tensor(a));
        return nb::make_tuple(made.lu, made.rows);
      },
      "a"_a, "The factors in one matrix, and the row of `a` that became each row.");
  m.def(
      "eigh",
      [](nb::handle a) {
        Eigh made = eigh(to_tensor(a));
        return nb::make_tuple(made.values, made.vectors);
      },
      "a"_a);
  m.def(
      "lstsq",
      [](nb::handle a, nb::handle b, std::optional<double> rcond) {
        LeastSquares made = lstsq(to_tensor(a), to_tensor(b), rcond);
        return nb::make_tuple(made.x, made.residuals, made.rank, made.s);
      },
      "a"_a, "b"_a, "rcond"_a = nb::none());
  m.def(
      "cholesky", [](nb::handle a, bool upper) { return cholesky(to_tensor(a), !upper); }, "a"_a,
      nb::kw_only(), "upper"_a = false);
  m.def(
      "solve_triangular",
      [](nb::handle a, nb::handle b, bool lower, bool trans, bool unit, bool left) {
        return triangular_solve(to_tensor(a), to_tensor(b), {left, lower, unit, trans});
      },
      "a"_a, "b"_a, nb::kw_only(), "lower"_a = false, "trans"_a = false, "unit_diagonal"_a = false,
      "left"_a = true);
}

Tensor vector_norm(nb::handle x, nb::handle axis, bool keepdims, double order) {
  return norm(to_tensor(x), order, to_axes(axis), keepdims);
}

}  // namespace

void bind_linear_algebra(nb::module_& m) {
  nb::module_ np = nb::borrow<nb::module_>(m.attr("numpy"));
  define(np, "matmul", matmul, "x1"_a, "x2"_a);
  define(np, "outer", outer, "a"_a, "b"_a);
  define(np, "vdot", vdot, "a"_a, "b"_a);
  define(np, "inner", inner, "a"_a, "b"_a);
  define(np, "kron", kron, "a"_a, "b"_a);
  define(np, "cross", cross, "a"_a, "b"_a, "axis"_a = -1);
  np.def(
      "einsum",
      [](const std::string& subscripts, nb::args operands) {
        return einsum(subscripts, to_tensors(operands));
      },
      "subscripts"_a, "operands"_a);

  nb::module_ linalg = m.def_submodule("linalg", "Matrices: numpy.linalg's names.");
  bind_factors(linalg);
  define(linalg, "solve", solve, "a"_a, "b"_a);
  define(linalg, "inv", inv, "a"_a);
  define(linalg, "det", det, "a"_a);
  define(linalg, "svdvals", svdvals, "x"_a);
  define(linalg, "eigvalsh", eigvalsh, "a"_a);
  define(linalg, "pinv", pinv, "a"_a, "rcond"_a = nb::none());
  define(linalg, "matrix_power", matrix_power, "a"_a, "n"_a);
  linalg.def("vector_norm", &vector_norm, "x"_a, nb::kw_only(), "axis"_a = nb::none(),
             "keepdims"_a = false, "ord"_a = 2.0);

  nb::module_ fourier = m.def_submodule("fft", "Fourier transforms of the last dimension.");
  define(fourier, "fft", fft, "a"_a);
  define(fourier, "ifft", ifft, "a"_a);
  define(fourier, "rfft", rfft, "a"_a);
  fourier.def(
      "irfft",
      [](nb::handle a, std::optional<int64_t> n) {
        const Tensor x = to_tensor(a);
        return irfft(x, n.value_or(2 * (x.dim(-1) - 1)));
      },
      "a"_a, "n"_a = nb::none());
}

}  // namespace cleave::python
