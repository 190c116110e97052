#include "cleave/transforms/flow.h"
#include "tensor_cases.h"

namespace cleave {
namespace {

// Well-conditioned matrices [..., n, n].
Tensor strong(const Tensor& x) { return x + eye(x.dim(-1)) * 5; }
// Signs of columns are arbitrary: each is turned so that its first element is positive.
Tensor turned(const Tensor& vectors) {
  return vectors * sign(vectors(ellipsis, slice(0, 1), slice()));
}
// The value of `at`, with the derivatives of x.
Tensor moved(const Tensor& x, const Tensor& at) { return at + (x - stop_gradient(x)); }

}  // namespace

std::vector<Case> factor_cases() {
  return {
      {"solve",
       {f32({5, 4, 4}), f32({5, 4, 3}), f32({4}), f32({4, 2})},
       [](Args x) {
         const Tensor a = strong(x[0]);
         return Results{solve(a, x[1]), solve(a, x[2]), solve(a, x[3]), solve(a[0], x[1]), inv(a)};
       },
       4000,
       true},
      {"det",
       {f32({7, 5, 5}), f32({3, 3}), f32({6, 2, 2})},
       [](Args x) {
         const LogDet five = slogdet(x[0]), three = slogdet(x[1]);
         return Results{det(x[0]),  five.sign,    five.logabs, det(x[1]),
                        three.sign, three.logabs, det(x[2])};
       },
       4000,
       true},
      // Two equal rows, a last pivot of 0, two pairs of equal rows, a column of zeros, and a matrix
      // that is not singular; then a product, whose derivative is that of a function of cofactors.
      {"det_singular",
       {f32({4, 4}), f32({4, 4}), f32({4, 4}), f32({4, 4}), f32({3, 5, 5})},
       [](Args x) {
         const Tensor equal =
             tensor({{4., 2., 1., 3.}, {1., 3., -1., 2.}, {4., 2., 1., 3.}, {2., 0., 5., 1.}});
         const Tensor last =
             tensor({{2., 1., 3., 4.}, {0., 3., 1., 2.}, {0., 0., 5., 1.}, {0., 0., 0., 0.}});
         const Tensor pairs =
             tensor({{4., 2., 1., 3.}, {4., 2., 1., 3.}, {1., 3., 2., 2.}, {1., 3., 2., 2.}});
         const Tensor column =
             tensor({{0., 2., 1., 3.}, {0., 3., 1., 2.}, {0., 1., 5., 1.}, {0., 1., 1., 4.}});
         return Results{det(moved(x[0], equal)), det(moved(x[1], last)), det(moved(x[2], pairs)),
                        det(moved(x[3], column)), square(det(x[4])) + sin(det(x[4]))};
       },
       4000,
       true},
      {"qr",
       {f32({5, 6, 4}), f32({4, 4}), f32({3, 5})},
       [](Args x) {
         const Qr tall = qr(x[0]), square = qr(x[1]);
         return Results{tall.q, tall.r, square.q, square.r};
       },
       4000,
       true},
      {"qr_full",
       {f32({5, 6, 4}), f32({3, 5})},
       [](Args x) {
         const Qr full = qr(x[0], true), wide = qr(x[1]), both = qr(x[1], true);
         return Results{full.q, full.r, wide.q, wide.r, both.q, both.r};
       },
       4000},
      {"svd",
       {f32({5, 6, 4}), f32({3, 5})},
       [](Args x) {
         const Svd tall = svd(x[0]), wide = svd(x[1]);
         const Tensor scaled = tall.u * expand_dims(square(tall.s), 1);
         return Results{tall.s, matmul(scaled, tall.vh), wide.s, svdvals(x[0]), turned(tall.u)};
       },
       4000,
       true},
      {"eigh",
       {f32({5, 4, 4})},
       [](Args x) {
         const Eigh parts = eigh(x[0]);
         return Results{parts.values, turned(parts.vectors), eigvalsh(x[0])};
       },
       8000,
       true},
  };
}

std::vector<Case> factor_use_cases() {
  return {
      {"lstsq",
       {f32({6, 4}), f32({6, 2}), f32({6}), f32({3, 5, 4})},
       [](Args x) {
         const LeastSquares many = lstsq(x[0], x[1]), one = lstsq(x[0], x[2]);
         return Results{many.x, many.residuals, many.rank, many.s, one.x, pinv(x[3])};
       },
       8000,
       true},
      {"matrix_power",
       {f32({5, 4, 4})},
       [](Args x) {
         const Tensor a = strong(x[0]);
         return Results{matrix_power(a, 3), matrix_power(a, -2), matrix_power(a, 0),
                        matrix_power(a, 6)};
       },
       4000,
       true},
      {"factors_f64",
       {f64({3, 4, 4}), f64({3, 4})},
       [](Args x) {
         const Tensor a = x[0] + eye(4, {}, DType::F64) * 4;
         return Results{solve(a, expand_dims(x[1], 2)), det(a), svd(a).s, abs(qr(a).r)};
       }},
      {"factors_complex",
       {f32({4, 4}), f32({4, 4})},
       [](Args x) {
         const Tensor a = complex(x[0], x[1]) + eye(4) * 4;
         const Eigh e = eigh(a);
         const Qr f = qr(a);
         const Svd s = svd(a);
         return Results{solve(a, x[0]), inv(a),   det(a),           e.values,
                        abs(e.vectors), abs(f.r), matmul(f.q, f.r), s.s};
       },
       8000},
      {"singular",
       {},
       [](Args) {
         const Tensor a = tensor({{1.0, 2.0}, {2.0, 4.0}});
         const LogDet parts = slogdet(a);
         return Results{is_finite(solve(a, ones({2}))), det(a), parts.sign, parts.logabs,
                        lstsq(a, ones({2})).rank};
       }},
  };
}

std::vector<Case> matrix_cases() {
  return {
      {"diagonals",
       {f32({5, 6}), f32({4}), f32({3, 4, 5})},
       [](Args x) {
         return Results{diag(x[0]),        diag(x[0], 2),     diag(x[0], -3),
                        diag(x[1]),        diag(x[1], 2),     diag(x[1], -1),
                        diagonal(x[2], 1), diag(x[0], 9),     diagonal(x[2], 0, 0, 2),
                        trace_of(x[2]),    trace_of(x[0], -1)};
       },
       1000,
       true},
      {"products",
       {f32({3, 4}), f32({2, 4}), f32({5, 3}), f32({5, 3}), f32({3}), f32({3, 4})},
       [](Args x) {
         return Results{inner(x[0], x[1]), kron(x[0], x[1]), cross(x[2], x[3]),
                        cross(x[2], x[4]), vdot(x[0], x[5]), outer(x[4], x[4])};
       },
       1000,
       true},
      {"einsum_ellipsis",
       {f32({2, 5, 4}), f32({4, 3}), f32({2, 1, 4}), f32({5, 4})},
       [](Args x) {
         return Results{
             einsum("...i,ij->...j", {x[0], x[1]}), einsum("...i,...i->...", {x[0], x[2]}),
             einsum("...i,...i", {x[0], x[3]}),     einsum("b...->...b", {x[0]}),
             einsum("...ij,jk", {x[0], x[1]}),      einsum("...,...->...", {x[0], x[3]})};
       },
       1000,
       true},
  };
}

}  // namespace cleave
