#include <algorithm>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/discover/library.h"

namespace cleave {
namespace {

using Values = std::span<const ValueId>;

constexpr double kInf = std::numeric_limits<double>::infinity();

TensorDesc f64(Shape shape) { return {DType::F64, std::move(shape)}; }

int64_t dim_of(const AttrMap& attrs, size_t rank, const char* op) {
  const int64_t dim = std::get<int64_t>(attrs.at("dim"));
  if (dim < 0 || dim >= static_cast<int64_t>(rank))
    throw_user("{}: dim {} of a tensor of rank {}", op, dim, rank);
  return dim;
}

std::vector<AttrMap> dims_and_keepdim(std::initializer_list<int64_t> dims) {
  std::vector<AttrMap> sets;
  for (int64_t dim : dims)
    for (bool keepdim : {false, true}) sets.push_back({{"dim", dim}, {"keepdim", keepdim}});
  return sets;
}

std::vector<AttrMap> dims_only(std::initializer_list<int64_t> dims) {
  std::vector<AttrMap> sets;
  for (int64_t dim : dims) sets.push_back({{"dim", dim}});
  return sets;
}

ValueId keep(GraphBuilder& b, ValueId reduced, const Shape& full, int64_t dim,
             const AttrMap& attrs) {
  if (!std::get<bool>(attrs.at("keepdim"))) return reduced;
  Shape shape = full;
  shape[dim] = 1;
  return b.reshape(reduced, shape);
}

void reduction(std::vector<Operator>& library, std::string name, std::string op, double init,
               bool mean = false) {
  Operator result = operator_with_body(
      name,
      [=](GraphBuilder& b, const AttrMap& attrs, Values x) {
        const Shape shape = b.shape(x[0]);
        const int64_t dim = dim_of(attrs, shape.size(), name.c_str());
        ValueId y = b.reduce(x[0], op, init, {dim});
        if (mean)
          y = b.emit("stablehlo.divide", {y, b.constant_like(static_cast<double>(shape[dim]), y)});
        return std::vector{keep(b, y, shape, dim, attrs)};
      },
      cross_samples({{f64({5, 3, 4})}, {f64({6, 1, 3})}}, dims_and_keepdim({0, 1, 2})));
  result.dim_attrs = {"dim"};
  library.push_back(std::move(result));
}

// (maximum, its first index) along a dimension, by comparing with the maximum.
std::vector<ValueId> max_with_index(GraphBuilder& b, ValueId x, int64_t dim) {
  const ValueId top = b.reduce(x, "stablehlo.maximum", -kInf, {dim});
  const ValueId wide = b.reduce_and_broadcast(x, "stablehlo.maximum", -kInf, {dim});
  const ValueId index = b.iota(DType::I64, b.shape(x), dim);
  const ValueId beyond = b.constant(static_cast<double>(b.shape(x)[dim]), DType::I64, b.shape(x));
  // NaN counts as the largest.
  const ValueId is_top = b.emit("stablehlo.or", {b.compare("EQ", x, wide), b.compare("NE", x, x)});
  const ValueId hit = b.emit("stablehlo.select", {is_top, index, beyond});
  return {top, b.reduce(hit, "stablehlo.minimum", 1 << 30, {dim})};
}

ValueId softmax(GraphBuilder& b, ValueId x, int64_t dim) {
  const ValueId top = b.reduce_and_broadcast(x, "stablehlo.maximum", -kInf, {dim});
  const ValueId e = b.emit("stablehlo.exponential", {b.emit("stablehlo.subtract", {x, top})});
  return b.emit("stablehlo.divide", {e, b.reduce_and_broadcast(e, "stablehlo.add", 0, {dim})});
}

ValueId cumsum(GraphBuilder& b, ValueId x, int64_t dim) {
  // The lower triangle of ones times x: y[i] = sum of x[j], j <= i.
  Shape wide = b.shape(x);
  wide.push_back(b.shape(x)[dim]);
  const auto rank = static_cast<int64_t>(b.shape(x).size());
  std::vector<int64_t> x_dims;
  for (int64_t d = 0; d < rank; ++d) x_dims.push_back(d == dim ? rank : d);
  const ValueId triangle =
      b.compare("GE", b.iota(DType::I64, wide, dim), b.iota(DType::I64, wide, rank));
  const ValueId terms = b.emit("stablehlo.select", {triangle, b.broadcast(x, wide, x_dims),
                                                    b.constant(0, b.dtype(x), wide)});
  return b.reduce(terms, "stablehlo.add", 0, {rank});
}

template <typename Body>
void along_dim(std::vector<Operator>& library, std::string name, Body body,
               std::vector<std::vector<TensorDesc>> shapes) {
  Operator op = operator_with_body(
      name,
      [name, body](GraphBuilder& b, const AttrMap& attrs, Values x) -> std::vector<ValueId> {
        return body(b, x, dim_of(attrs, b.shape(x[0]).size(), name.c_str()));
      },
      cross_samples(shapes, dims_only({0, 1, 2})));
  op.dim_attrs = {"dim"};
  library.push_back(std::move(op));
}

}  // namespace

void add_reduction_operators(std::vector<Operator>& library) {
  reduction(library, "sum", "stablehlo.add", 0);
  reduction(library, "mean", "stablehlo.add", 0, true);
  reduction(library, "amax", "stablehlo.maximum", -kInf);
  reduction(library, "amin", "stablehlo.minimum", kInf);
  reduction(library, "prod", "stablehlo.multiply", 1);

  const std::vector<std::vector<TensorDesc>> shapes = {{f64({5, 3, 4})}, {f64({4, 7, 1})}};
  using V = std::vector<ValueId>;
  along_dim(
      library, "argmax",
      [](GraphBuilder& b, Values x, int64_t dim) { return V{max_with_index(b, x[0], dim)[1]}; },
      shapes);
  along_dim(
      library, "max_with_index",
      [](GraphBuilder& b, Values x, int64_t dim) { return max_with_index(b, x[0], dim); }, shapes);
  along_dim(
      library, "softmax",
      [](GraphBuilder& b, Values x, int64_t dim) { return V{softmax(b, x[0], dim)}; }, shapes);
  along_dim(
      library, "log_softmax",
      [](GraphBuilder& b, Values x, int64_t dim) {
        return V{b.emit("stablehlo.log", {softmax(b, x[0], dim)})};
      },
      shapes);
  along_dim(
      library, "cumsum",
      [](GraphBuilder& b, Values x, int64_t dim) { return V{cumsum(b, x[0], dim)}; }, shapes);
  along_dim(
      library, "logsumexp",
      [](GraphBuilder& b, Values x, int64_t dim) {
        const ValueId e = b.emit("stablehlo.exponential", {x[0]});
        return V{b.emit("stablehlo.log", {b.reduce(e, "stablehlo.add", 0, {dim})})};
      },
      shapes);
  along_dim(
      library, "norm",
      [](GraphBuilder& b, Values x, int64_t dim) {
        const ValueId squares = b.emit("stablehlo.multiply", {x[0], x[0]});
        return V{b.emit("stablehlo.sqrt", {b.reduce(squares, "stablehlo.add", 0, {dim})})};
      },
      shapes);
  along_dim(
      library, "var",
      [](GraphBuilder& b, Values x, int64_t dim) {
        const double n = static_cast<double>(b.shape(x[0])[dim]);
        const ValueId sum = b.reduce_and_broadcast(x[0], "stablehlo.add", 0, {dim});
        const ValueId c =
            b.emit("stablehlo.subtract",
                   {x[0], b.emit("stablehlo.divide", {sum, b.constant_like(n, sum)})});
        const ValueId s = b.reduce(b.emit("stablehlo.multiply", {c, c}), "stablehlo.add", 0, {dim});
        return V{b.emit("stablehlo.divide", {s, b.constant_like(n, s)})};
      },
      shapes);
}

}  // namespace cleave
