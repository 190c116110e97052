#pragma once

#include <optional>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// One thing that is done to every element of a matrix product, or of a convolution, while it is
// written.
struct EpilogueStep {
  enum class Kind : uint8_t {
    Linear,  // alpha x + beta
    Tanh,
    Logistic,
    GeluTanh,
    GeluErf,
    Silu,
    Add,  // and the others: with an operand
    Subtract,
    Multiply,
    Maximum,  // with alpha; only clips follow: oneDNN's own turn NaN into numbers, so that they are
    Minimum,  // done after its call
  };
  Kind kind = Kind::Linear;
  double alpha = 1, beta = 0;
  ValueId operand;            // of the shape of the product, or
  bool by_column = false;     // one value for each column, or output feature, in order
  std::vector<NodeId> nodes;  // that it stands for, in order
  ValueId result;
};

inline bool is_clip(const EpilogueStep& step) {
  return step.kind == EpilogueStep::Kind::Maximum || step.kind == EpilogueStep::Kind::Minimum;
}

// What happens to `value`, a product of `dot` or made of one, as one step that oneDNN knows;
// nothing if there is none, or if something else reads the values in between. Activations are
// recognised by their values, so that it does not matter how they are written:
//   0.5 * x * (1 + tanh(0.798 * (x + 0.0447 * x * x * x)))   -> GeluTanh
std::optional<EpilogueStep> next_epilogue_step(const Graph& graph, const UseMap& uses,
                                               const Node& dot, ValueId value);

bool is_product(const Node& node);  // dot_general, convolution

// Matrix products and convolutions take what follows them (bias, scale, activation, residual) into
// a `cleave.fusion` of their own, which becomes one call of oneDNN:
//
//   %h = dot_general %x, %w                  "cleave.fusion"(%x, %w, %b) ({
//   %b1 = broadcast_in_dim %b        ->        the same nodes
//   %s = add %h, %b1                         })
//   %y = maximum %s, zeros
bool fuse_epilogues(Graph& graph);

// The product of such a fusion; null for any other fusion.
const Node* product_of_fusion(const Graph& graph, const Node& fusion);

}  // namespace cleave
