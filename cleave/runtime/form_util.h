#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/dot.h"

// What the forms of ops (see FormFn) are written with.
namespace cleave {

// Ops as params: a pointer to the definition, since the registry is never freed.
inline int64_t op_param(const OpDef* def) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(def));
}
inline const std::string& op_from(int64_t param) {
  return reinterpret_cast<const OpDef*>(static_cast<intptr_t>(param))->name;
}
// The name of an op as a template argument.
template <size_t N>
struct OpText {
  char text[N];
  constexpr OpText(const char (&literal)[N]) { std::copy_n(literal, N, text); }
};
const OpDef* known_op(std::string_view name);  // throws InternalError if there is none

inline int64_t real_param(double value) { return std::bit_cast<int64_t>(value); }
inline double real_from(int64_t param) { return std::bit_cast<double>(param); }

// NumPy's rule: shapes aligned at their ends, ones stretch. Throws UserError in the name of `op`.
//   {8, 1, 4}, {3, 4} -> {8, 3, 4}
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);
// The value stretched to a shape by that rule; the value itself if it has that shape.
ValueId stretch(GraphBuilder& b, ValueId value, Shape shape);
ValueId cast_to(GraphBuilder& b, ValueId value, DType dtype);  // itself if it has the dtype

// -1 -> rank - 1; throws UserError in the name of `op`.
int64_t checked_dim(std::string_view op, int64_t dim, int64_t rank);
// The same for a list, which must not name a dimension twice; sorted.
std::vector<int64_t> checked_dims(std::string_view op, std::vector<int64_t> dims, int64_t rank);

ValueId emit_dot(GraphBuilder& b, ValueId x, ValueId y, const DotDims& dims);  // ops_linalg.cc

// An op with one region of scalar code, which `body` writes and ends by `finish`. Its arguments are
// scalars of the given dtypes.
//   emit_with_body(b, "stablehlo.sort", {x}, {b.type(x)}, attrs, {F32, F32}, [](GraphBuilder& r) {
//     r.finish({r.compare("LT", r.arg(0), r.arg(1))}); });
std::vector<ValueId> emit_with_body(GraphBuilder& b, std::string_view op,
                                    std::vector<ValueId> operands, std::vector<Type> results,
                                    AttrDict attrs, const std::vector<DType>& args,
                                    const std::function<void(GraphBuilder&)>& body);
// dense<...> : tensor<(n/2)x2xi64>, the pairs of a padding.
Attribute pairs_attr(const std::vector<int64_t>& values);
// The vector along dimension `dim` of a tensor of this shape, repeated along the others.
ValueId along(GraphBuilder& b, ValueId vector, Shape shape, int64_t dim);
// A constant with the lowest (highest) value of its dtype, exact for 64-bit integers too.
ValueId lowest_constant(GraphBuilder& b, DType dtype, const Shape& shape = {});
ValueId highest_constant(GraphBuilder& b, DType dtype, const Shape& shape = {});
// The dtype in which a function of real numbers takes its operand: integers and bools as f32.
inline DType real_type(DType dtype) {
  return is_float(dtype) || is_complex(dtype) ? dtype : DType::F32;
}
// What a reduction by this op begins with.
ValueId identity_constant(GraphBuilder& b, std::string_view op, DType dtype);
// A reduction by one op from its identity; reduced dimensions stay with size 1 if `keep` says so.
ValueId fold(GraphBuilder& b, ValueId x, std::string_view op, const std::vector<int64_t>& dims,
             bool keep = false);

// A count that comes from sizes says from which: stablehlo.constant {cleave.sizes = array<i64: 8,
// 32>} dense<2.56e+02>, their product, less cleave.sizes_less if that is present. A trace that is
// replayed with other sizes counts anew (cleave/transforms/resize.h).
inline constexpr std::string_view kSizes = "cleave.sizes";
inline constexpr std::string_view kSizesLess = "cleave.sizes_less";
ValueId count_constant(GraphBuilder& b, DType dtype, std::vector<int64_t> sizes, double less);

// A copy of the value with dimension `dim` of size 1 put in.
ValueId expand(GraphBuilder& b, ValueId value, int64_t dim);

}  // namespace cleave
