#include <cmath>
#include <cstring>

#include "cleave/graph/local_op.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op_table.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/rewrite/rewriter.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

class Arithmetic {
 public:
  Arithmetic(Rewriter& rewriter, NodeId id)
      : r_(rewriter), node_(rewriter.graph().node(id)), result_(node_.results[0]) {}

  void run() {
    using Rule = void (Arithmetic::*)();
    static const auto rules = OpTable<Rule>()
                                  .set<op::Convert>(&Arithmetic::convert)
                                  .set<op::Select>(&Arithmetic::select)
                                  .set<op::Not, op::Negate>(&Arithmetic::twice)
                                  .set<op::Add>(&Arithmetic::add)
                                  .set<op::Subtract>(&Arithmetic::subtract)
                                  .set<op::Multiply>(&Arithmetic::multiply)
                                  .set<op::Divide>(&Arithmetic::divide)
                                  .set<op::Maximum, op::Minimum>(&Arithmetic::same_operands)
                                  .set<op::And>(&Arithmetic::and_bits)
                                  .set<op::Or>(&Arithmetic::or_bits);
    if (const Rule* rule = rules.find(node_)) (this->*(*rule))();
  }

 private:
  ValueId in(size_t i) const { return node_.operands[i]; }
  DType dtype() const { return r_.type(result_).dtype; }
  bool exact() const { return is_integer(dtype()) || dtype() == DType::Bool; }
  // Operand i is this number everywhere, the sign of zero included.
  bool is_number(size_t i, double number) const {
    const Literal* literal = r_.constant(in(i));
    if (!literal) return false;
    const std::optional<double> value = splat_value(*literal);
    return value && *value == number && std::signbit(*value) == std::signbit(number);
  }
  bool keep(size_t i) {
    if (r_.type(in(i)) != r_.type(result_)) return false;
    r_.replace(result_, in(i));
    return true;
  }
  void same_operands() {
    if (in(0) == in(1)) keep(0);
  }

  void add() {
    for (size_t i : {0, 1})
      if (is_number(i, exact() ? 0.0 : -0.0) && dtype() != DType::Bool && keep(1 - i)) return;
  }
  void subtract() {
    if (is_number(1, 0.0)) keep(0);
  }
  void multiply() {
    for (size_t i : {0, 1})
      if ((is_number(i, 1.0) && keep(1 - i)) || (exact() && is_number(i, 0.0) && keep(i))) return;
  }
  void divide() {
    if (is_number(1, 1.0)) {
      keep(0);
      return;
    }
    const Literal* literal = is_float(dtype()) ? r_.constant(in(1)) : nullptr;
    const std::optional<double> value = literal ? splat_value(*literal) : std::nullopt;
    if (!value || !std::isfinite(*value) || *value == 0) return;
    int exponent = 0;
    if (std::abs(std::frexp(*value, &exponent)) != 0.5) return;
    if (exponent < -12 || exponent > 12) return;  // the reciprocal is a normal number of every type
    const ValueId reciprocal = r_.emit_constant(splat_literal(r_.type(in(1)), 1 / *value));
    r_.replace(result_, r_.emit("stablehlo.multiply", {in(0), reciprocal}, r_.type(result_)));
  }
  void and_bits() { bits(true); }
  void or_bits() { bits(false); }
  void bits(bool is_and) {
    if (in(0) == in(1)) {
      keep(0);
      return;
    }
    if (dtype() != DType::Bool) return;
    for (size_t i : {0, 1}) {
      if (is_number(i, is_and ? 1.0 : 0.0) && keep(1 - i)) return;
      if (is_number(i, is_and ? 0.0 : 1.0) && keep(i)) return;
    }
  }

  void convert() {
    if (keep(0)) return;
    // Back from a type that holds every value of the first one.
    const Node* inner = r_.producer(in(0));
    if (!inner || inner->def != node_.def || is_pinned(*inner)) return;
    const DType from = r_.type(inner->operands[0]).dtype, through = r_.type(in(0)).dtype;
    const bool widens = is_float(from) && is_float(through) && has_kernels(from) &&
                        (through == DType::F64 || (through == DType::F32 && from != DType::F64));
    if (widens && from == dtype()) r_.replace(result_, inner->operands[0]);
  }

  void select() {
    if (in(1) == in(2)) {
      keep(1);
      return;
    }
    const Literal* literal = r_.constant(in(0));
    const std::optional<double> value = literal ? splat_value(*literal) : std::nullopt;
    if (value) keep(*value != 0 ? 1 : 2);
  }

  // not(not(x)), negate(negate(x))
  void twice() {
    const Node* inner = r_.producer(in(0));
    if (inner && inner->def == node_.def && !is_pinned(*inner))
      r_.replace(result_, inner->operands[0]);
  }

  Rewriter& r_;
  const Node node_;  // a copy: emitting moves the table of nodes
  const ValueId result_;
};

// A reduction over dimensions of size 1 folds one element into the first value.
void reduce_one(Rewriter& r, const Node& node, const Type& type) {
  if (node.operands.size() != 2 || !recognise_reducers(r.graph(), node.regions[0])) return;
  const Type& input = r.type(node.operands[0]);
  const std::vector<NodeId>& body = r.graph().region(node.regions[0]).nodes;
  if (body.size() != 2 || input.dtype != type.dtype || !input.has_static_shape() ||
      num_elements(input.shape) != num_elements(type.shape) ||
      body_dtype(r.graph(), node, 0) != type.dtype)
    return;
  const std::string op = r.graph().node(body[0]).name();
  AttrDict attrs;
  attrs.set("broadcast_dimensions", ints_attr({}));
  const ValueId first =
      r.emit("stablehlo.broadcast_in_dim", {node.operands[1]}, type, std::move(attrs));
  const ValueId value = r.emit_reshape(node.operands[0], type.shape);
  r.replace(node.results[0], r.emit(op, {first, value}, type));
}

void canonical_dot(Rewriter& r, const Node& node, const Type& type) {
  const Type& lhs = r.type(node.operands[0]);
  if (lhs.unranked || r.type(node.operands[1]).unranked || lhs.rank() == 0) return;
  AttrDict attrs = node.attrs;
  attrs.set(kDotDims, dot_dims_attr(*dot_dims_of(r.graph(), node)));
  r.replace(node.results[0], r.emit("stablehlo.dot_general", node.operands, type, attrs));
}

void canonical_broadcast(Rewriter& r, const Node& node, const Type& type) {
  const Type& operand = r.type(node.operands[0]);
  std::vector<int64_t> dims;
  for (size_t d = 0; d < operand.rank(); ++d)
    dims.push_back(static_cast<int64_t>(type.rank() - operand.rank() + d));
  AttrDict attrs;
  attrs.set("broadcast_dimensions", ints_attr(std::move(dims)));
  r.replace(node.results[0], r.emit("stablehlo.broadcast_in_dim", node.operands, type, attrs));
}

void canonical_clamp(Rewriter& r, const Node& node, const Type& type) {
  if (is_complex(type.dtype)) return;
  auto spread = [&](ValueId bound) {
    if (r.type(bound) == type) return bound;
    AttrDict attrs;
    attrs.set("broadcast_dimensions", ints_attr({}));
    return r.emit("stablehlo.broadcast_in_dim", {bound}, type, attrs);
  };
  const ValueId low = spread(node.operands[0]), high = spread(node.operands[2]);
  const ValueId raised = r.emit("stablehlo.maximum", {node.operands[1], low}, type);
  r.replace(node.results[0], r.emit("stablehlo.minimum", {raised, high}, type));
}

void canonical_form(Rewriter& r, NodeId id) {
  using Rule = void (*)(Rewriter&, const Node&, const Type&);
  static const auto rules = OpTable<Rule>()
                                .set<op::Dot>(canonical_dot)
                                .set<op::Reduce>(reduce_one)
                                .set<op::Broadcast>(canonical_broadcast)
                                .set<op::Clamp>(canonical_clamp);
  const Rule* rule = rules.find(r.graph().node(id));
  if (!rule) return;
  const Node node = r.graph().node(id);
  if (is_pinned(node) || node.results.size() != 1) return;
  const Type type = r.type(node.results[0]);
  if (type.is_tensor() && type.has_static_shape()) (*rule)(r, node, type);
}

}  // namespace

bool simplify_arithmetic(Graph& graph) {
  return Rewriter(graph).run([](Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph().node(id);
    if (node.def->has(kElementwise) && node.results.size() == 1 && !is_pinned(node))
      Arithmetic(rewriter, id).run();
  });
}

bool canonicalize(Graph& graph) { return Rewriter(graph).run(canonical_form); }

}  // namespace cleave
