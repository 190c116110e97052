#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "cleave/graph/builder.h"

namespace cleave {

// A value under construction, so that rules read like formulas. Numbers take the type of the other
// side.
//
//   Expr x = expr(b, b.arg(0));
//   Expr y = 1.0 / sqrt(1.0 - x * x);       // the derivative of asin
struct Expr {
  GraphBuilder* b = nullptr;
  ValueId id;

  operator ValueId() const { return id; }
  bool valid() const { return id.valid(); }
  Shape shape() const { return b->shape(id); }  // a copy: the graph grows
  DType dtype() const { return b->dtype(id); }
};

inline Expr expr(GraphBuilder& b, ValueId id) { return {&b, id}; }
inline Expr number_like(double value, Expr like) {
  return {like.b, like.b->constant_like(value, like.id)};
}
inline Expr zeros_like(Expr like) { return number_like(0, like); }

inline Expr unary(std::string_view op, Expr x) { return {x.b, x.b->emit(op, {x.id})}; }
inline Expr binary(std::string_view op, Expr x, Expr y) {
  return {x.b, x.b->emit(op, {x.id, y.id})};
}

inline Expr operator+(Expr x, Expr y) { return binary("stablehlo.add", x, y); }
inline Expr operator-(Expr x, Expr y) { return binary("stablehlo.subtract", x, y); }
inline Expr operator*(Expr x, Expr y) { return binary("stablehlo.multiply", x, y); }
inline Expr operator/(Expr x, Expr y) { return binary("stablehlo.divide", x, y); }
inline Expr operator+(Expr x, double y) { return x + number_like(y, x); }
inline Expr operator-(Expr x, double y) { return x - number_like(y, x); }
inline Expr operator*(Expr x, double y) { return x * number_like(y, x); }
inline Expr operator/(Expr x, double y) { return x / number_like(y, x); }
inline Expr operator+(double x, Expr y) { return number_like(x, y) + y; }
inline Expr operator-(double x, Expr y) { return number_like(x, y) - y; }
inline Expr operator*(double x, Expr y) { return number_like(x, y) * y; }
inline Expr operator/(double x, Expr y) { return number_like(x, y) / y; }
inline Expr operator-(Expr x) { return unary("stablehlo.negate", x); }

inline Expr exp(Expr x) { return unary("stablehlo.exponential", x); }
inline Expr log(Expr x) { return unary("stablehlo.log", x); }
inline Expr sin(Expr x) { return unary("stablehlo.sine", x); }
inline Expr cos(Expr x) { return unary("stablehlo.cosine", x); }
inline Expr sqrt(Expr x) { return unary("stablehlo.sqrt", x); }
inline Expr rsqrt(Expr x) { return unary("stablehlo.rsqrt", x); }
inline Expr abs(Expr x) { return unary("stablehlo.abs", x); }
inline Expr sign(Expr x) { return unary("stablehlo.sign", x); }
inline Expr floor(Expr x) { return unary("stablehlo.floor", x); }
inline Expr real(Expr x) { return unary("stablehlo.real", x); }
inline Expr imag(Expr x) { return unary("stablehlo.imag", x); }
inline Expr complex(Expr re, Expr im) { return binary("stablehlo.complex", re, im); }
inline Expr conj(Expr x) { return complex(real(x), -imag(x)); }
// The conjugate if numbers are complex, x itself otherwise.
inline Expr maybe_conj(Expr x) { return is_complex(x.dtype()) ? conj(x) : x; }
inline Expr power(Expr x, Expr y) { return binary("stablehlo.power", x, y); }

// "EQ", "NE", "LT", "LE", "GT", "GE"
inline Expr compare(std::string_view direction, Expr x, Expr y) {
  return {x.b, x.b->compare(direction, x.id, y.id)};
}
inline Expr compare(std::string_view direction, Expr x, double y) {
  return compare(direction, x, number_like(y, x));
}
inline Expr select(Expr condition, Expr yes, Expr no) {
  return {yes.b, yes.b->emit("stablehlo.select", {condition.id, yes.id, no.id})};
}
inline Expr select(Expr condition, Expr yes, double no) {
  return select(condition, yes, number_like(no, yes));
}

inline Expr convert(Expr x, DType dtype) {
  return x.dtype() == dtype ? x : Expr{x.b, x.b->convert(x.id, dtype)};
}
inline Expr reshape(Expr x, Shape shape) {
  return x.shape() == shape ? x : Expr{x.b, x.b->reshape(x.id, std::move(shape))};
}
inline Expr broadcast(Expr x, Shape shape, std::vector<int64_t> dims) {
  return {x.b, x.b->broadcast(x.id, std::move(shape), std::move(dims))};
}
Expr transpose(Expr x, std::vector<int64_t> permutation);  // x itself if it changes nothing
Expr swap_last_two(Expr x);                                // matrices transposed
Expr sum(Expr x, std::vector<int64_t> dims);               // x itself if `dims` is empty
Expr sum_all(Expr x);
Expr reverse(Expr x, std::vector<int64_t> dims);
Expr slice(Expr x, std::vector<int64_t> start, std::vector<int64_t> limit,
           std::vector<int64_t> stride = {});
Expr pad(Expr x, double value, std::vector<int64_t> low, std::vector<int64_t> high,
         std::vector<int64_t> interior = {});
Expr concatenate(const std::vector<Expr>& parts, int64_t dim);
Expr iota(GraphBuilder& b, DType dtype, Shape shape, int64_t dim);
// Batched matrix product of the last two dimensions.
Expr matmul(Expr x, Expr y);
// Elements of x along dim at the indices, which have the result's shape:
//   take_along([[1, 2, 3]], [[2, 0]], 1) -> [[3, 1]]
Expr take_along(Expr x, Expr indices, int64_t dim);
// Its transpose: adds the elements of y into zeros of that shape.
Expr put_along(Expr y, Expr indices, int64_t dim, Shape shape);

// All dimensions of a rank, in order: {0, 1, 2}.
std::vector<int64_t> all_dims(size_t rank);
bool contains_dim(const std::vector<int64_t>& dims, int64_t dim);
// {0 .. rank) without `dims`.
std::vector<int64_t> other_dims(const std::vector<int64_t>& dims, size_t rank);

// A struct attribute with its empty lists left out, as the text does.
Attribute struct_of(std::string name, std::vector<NamedAttribute> fields);

// dense<[[l0, h0], [l1, h1]]>: padding by dimension.
Attribute pairs_attr(const std::vector<int64_t>& low, const std::vector<int64_t>& high);

// A copy of one op with other operands, and of the regions inside it; its results have the
// original's types.
std::vector<ValueId> reemit(GraphBuilder& b, const Node& node, std::vector<ValueId> operands);
// A copy of a region's arguments and nodes into an empty one.
void copy_body(Graph& graph, RegionId source, RegionId target);
// A region { (a, b) -> op(a, b) } of scalars.
void add_scalar_body(Graph& graph, NodeId node, std::string_view op, DType dtype);

}  // namespace cleave
