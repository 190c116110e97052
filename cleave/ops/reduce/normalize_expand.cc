#include <cmath>

#include "cleave/ops/expansions.h"
#include "cleave/ops/expr.h"
#include "cleave/ops/reduce/family.h"

// Normalisations as sums and elementwise ops.
namespace cleave {
namespace {

// ---- batch norms, over all dimensions but the feature's; 16-bit floats are widened, as the
// kernels do

struct BatchNorm {
  GraphBuilder& b;
  const Node& node;
  std::span<const ValueId> operands;
  Shape shape;
  int64_t feature;
  double epsilon, count = 1;
  std::vector<int64_t> others;

  BatchNorm(GraphBuilder& builder, const Node& of, std::span<const ValueId> values)
      : b(builder),
        node(of),
        operands(values),
        shape(builder.shape(values[0])),
        feature(of.attrs.get_int("feature_index")),
        epsilon(of.attrs.get_float("epsilon")),
        others(other_dims({feature}, shape.size())) {
    for (int64_t d : others) count *= static_cast<double>(shape[d]);
  }
  Expr in(size_t i) const {
    const Expr x = expr(b, operands[i]);
    return convert(x, x.dtype() == DType::F64 ? DType::F64 : DType::F32);
  }
  ValueId out(Expr value, size_t result) const {
    return convert(value, b.dtype(node.results[result]));
  }
  Expr spread(Expr v) const { return broadcast(v, shape, {feature}); }
  Expr summed(Expr x) const { return {&b, b.reduce(x, "stablehlo.add", 0, others)}; }
  Expr mean(Expr x) const { return summed(x) / count; }
  Expr apply(Expr x, Expr scale, Expr offset, Expr middle, Expr variance) const {
    const Expr unit = (x - spread(middle)) / spread(sqrt(variance + epsilon));
    return spread(scale) * unit + spread(offset);
  }
  // A program leaves empty arrays to the kernel.
  bool keeps(ExpandUse use) const { return use == kInPrograms && num_elements(shape) == 0; }
};

std::vector<ValueId> expand_norm_inference(GraphBuilder& b, const Node& node,
                                           std::span<const ValueId> operands, ExpandUse) {
  const BatchNorm n(b, node, operands);
  return {n.out(n.apply(n.in(0), n.in(1), n.in(2), n.in(3), n.in(4)), 0)};
}

std::vector<ValueId> expand_norm_training(GraphBuilder& b, const Node& node,
                                          std::span<const ValueId> operands, ExpandUse use) {
  const BatchNorm n(b, node, operands);
  if (n.keeps(use)) return {};
  const Expr x = n.in(0);
  const Expr mean = n.mean(x);
  const Expr centred = x - n.spread(mean);
  const Expr variance = n.mean(centred * centred);
  const Expr y = n.apply(x, n.in(1), n.in(2), mean, variance);
  return {n.out(y, 0), n.out(mean, 1), n.out(variance, 2)};
}

std::vector<ValueId> expand_norm_grad(GraphBuilder& b, const Node& node,
                                      std::span<const ValueId> operands, ExpandUse use) {
  const BatchNorm n(b, node, operands);
  if (n.keeps(use)) return {};
  const Expr x = n.in(0), scale = n.in(1), mean = n.in(2), variance = n.in(3), grad = n.in(4);
  const Expr centred = x - n.spread(mean);
  const Expr root = sqrt(variance + n.epsilon);
  const Expr total = n.summed(grad), weighted = n.summed(grad * centred);
  const Expr factor = scale / root * (1 / n.count);
  const Expr slope = weighted / (variance + n.epsilon);
  const Expr inner = grad * n.count - n.spread(total) - n.spread(slope) * centred;
  return {n.out(n.spread(factor) * inner, 0), n.out(weighted / root, 1), n.out(total, 2)};
}

// ---- along the last dimension; of programs, since the transforms never see these ops

std::vector<int64_t> last_dim(const Shape& shape) {
  return {static_cast<int64_t>(shape.size()) - 1};
}

std::vector<ValueId> expand_softmax(GraphBuilder& b, const Node&, std::span<const ValueId> operands,
                                    ExpandUse) {
  const Expr x = expr(b, operands[0]);
  const std::vector<int64_t> last = last_dim(x.shape());
  const Expr most{&b, b.reduce_and_broadcast(x, "stablehlo.maximum", -INFINITY, last)};
  const Expr e = exp(x - most);
  return {e / Expr{&b, b.reduce_and_broadcast(e, "stablehlo.add", 0, last)}};
}

std::vector<ValueId> expand_layer_norm(GraphBuilder& b, const Node& node,
                                       std::span<const ValueId> operands, ExpandUse) {
  const Expr x = expr(b, operands[0]);
  const Shape shape = x.shape();
  const std::vector<int64_t> last = last_dim(shape);
  auto mean = [&](Expr y) {
    const Expr total{&b, b.reduce_and_broadcast(y, "stablehlo.add", 0, last)};
    return total * (1 / static_cast<double>(shape.back()));
  };
  const Expr centred = x - mean(x);
  const Expr variance = mean(centred * centred);
  const Expr out = centred * rsqrt(variance + node.attrs.get_float("epsilon"));
  if (operands.size() == 1) return {out};
  const Expr scaled = out * broadcast(expr(b, operands[1]), shape, last);
  return {scaled + broadcast(expr(b, operands[2]), shape, last)};
}

}  // namespace

void add_normalize_expansions(OpRegistry& r) {
  constexpr int kBoth = kInPrograms | kInDerivatives;
  set_expansion(r, "stablehlo.batch_norm_inference", expand_norm_inference, kBoth);
  set_expansion(r, "stablehlo.batch_norm_training", expand_norm_training, kBoth);
  set_expansion(r, "stablehlo.batch_norm_grad", expand_norm_grad, kBoth);
  set_expansion(r, "cleave.softmax", expand_softmax, kInPrograms);
  set_expansion(r, "cleave.layer_norm", expand_layer_norm, kInPrograms);
}

}  // namespace cleave
