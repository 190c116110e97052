#include "cleave/kernels/dot.h"

#include <algorithm>

#include "cleave/ops/diff_util.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/dot/family.h"

namespace cleave {
namespace {

std::vector<int64_t> joined(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// The cotangent of x in dot(x, y), where the result's dimensions are batch, free of the lhs, free
// of the rhs. It comes out as batch, free of x, contracted (in the order of y's), and is turned.
//   x {b m k}, y {b k n}, g {b m n}:  dot(g, y) over n -> {b m k}
Expr cotangent(const DiffContext& c, Expr g, Expr y, const DotDims& dims, bool x_is_lhs) {
  const Expr x = operand_expr(c, x_is_lhs ? 0 : 1);
  const auto& x_batch = x_is_lhs ? dims.lhs_batch : dims.rhs_batch;
  const auto& y_batch = x_is_lhs ? dims.rhs_batch : dims.lhs_batch;
  const auto& x_contract = x_is_lhs ? dims.lhs_contract : dims.rhs_contract;
  const auto& y_contract = x_is_lhs ? dims.rhs_contract : dims.lhs_contract;
  const size_t batch = x_batch.size();
  const auto x_free = other_dims(joined(x_batch, x_contract), x.shape().size());
  const auto y_free = other_dims(joined(y_batch, y_contract), y.shape().size());
  DotDims back;
  back.lhs_batch = all_dims(batch);
  back.rhs_batch = y_batch;
  const size_t first = batch + (x_is_lhs ? x_free.size() : 0);
  for (size_t i = 0; i < y_free.size(); ++i)
    back.lhs_contract.push_back(static_cast<int64_t>(first + i));
  back.rhs_contract = y_free;
  AttrDict attrs = dot_attrs(back);
  if (const Attribute* precision = c.node.attrs.find("precision_config"))
    attrs.set("precision_config", *precision);
  // Result: batch, free of g (which are those of x), free of y (its contracted ones, ascending).
  std::vector<int64_t> source = joined(x_batch, x_free);
  std::vector<int64_t> ascending = y_contract;
  std::ranges::sort(ascending);
  for (int64_t d : ascending)
    source.push_back(x_contract[std::ranges::find(y_contract, d) - y_contract.begin()]);
  Shape shape;
  for (int64_t d : source) shape.push_back(x.shape()[d]);
  const ValueId product =
      c.b.emit_as(Type::tensor(g.dtype(), shape), "stablehlo.dot_general", {g.id, y.id}, attrs);
  std::vector<int64_t> order(source.size());
  for (size_t i = 0; i < source.size(); ++i) order[source[i]] = static_cast<int64_t>(i);
  return convert(transpose({&c.b, product}, order), x.dtype());
}

std::vector<ValueId> vjp_dims(const DiffContext& c, Expr g, const DotDims& dims) {
  // Operands narrower than the result meet its cotangent in its type.
  auto other = [&](size_t i) { return convert(operand_expr(c, i), g.dtype()); };
  return {c.wants(0) ? cotangent(c, g, other(1), dims, true).id : ValueId{},
          c.wants(1) ? cotangent(c, g, other(0), dims, false).id : ValueId{}};
}

std::vector<ValueId> vjp_dot_general(const DiffContext& c, std::span<const ValueId> ct) {
  return vjp_dims(c, expr(c.b, ct[0]), dot_dims(c.node));
}

// [m k] x [k n], either a vector
std::vector<ValueId> vjp_dot(const DiffContext& c, std::span<const ValueId> ct) {
  const auto lhs_last = static_cast<int64_t>(operand_expr(c, 0).shape().size()) - 1;
  return vjp_dims(c, expr(c.b, ct[0]), DotDims{{}, {}, {lhs_last}, {0}});
}

// ---- einsum: the letters of the other operand and of the result give those of this one

std::vector<ValueId> vjp_einsum(const DiffContext& c, std::span<const ValueId> ct) {
  std::string text(c.node.attrs.get_string("einsum_config"));
  std::erase(text, ' ');
  const size_t comma = text.find(','), arrow = text.find("->");
  const std::string lhs = text.substr(0, comma), rhs = text.substr(comma + 1, arrow - comma - 1);
  const std::string result = text.substr(arrow + 2);
  auto back = [&](const std::string& mine, const std::string& other, size_t i) {
    std::string known;
    for (char letter : mine)
      if ((result + other).find(letter) != std::string::npos) known += letter;
    AttrDict attrs;
    attrs.set("einsum_config", string_attr(result + "," + other + "->" + known));
    const Expr g{&c.b, c.b.emit("stablehlo.einsum", {ct[0], c.operand(1 - i)}, std::move(attrs))};
    std::vector<int64_t> dims;
    for (char letter : known) dims.push_back(static_cast<int64_t>(mine.find(letter)));
    const Shape shape = operand_expr(c, i).shape();
    return known == mine ? g : broadcast(g, shape, dims);
  };
  return {c.wants(0) ? back(lhs, rhs, 0).id : ValueId{},
          c.wants(1) ? back(rhs, lhs, 1).id : ValueId{}};
}

}  // namespace

void add_dot_derivatives(OpRegistry& r) {
  auto set = [&](const char* name, VjpFn vjp) {
    r.extend(name, [&](OpDef& def) {
      def.jvp = jvp_bilinear;
      def.vjp = vjp;
    });
  };
  set("stablehlo.dot_general", vjp_dot_general);
  set("stablehlo.dot", vjp_dot);
  set("stablehlo.einsum", vjp_einsum);
}

}  // namespace cleave
