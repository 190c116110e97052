#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave::analyze {

// What a product is to the attention that it belongs to. With O = P V and P = softmax(Q K^T):
enum class AttentionRole : uint8_t {
  Scores,             // Q K^T
  Values,             // P V
  GradProbabilities,  // dO V^T
  GradValues,         // P^T dO
  GradQueries,        // dS K
  GradKeys,           // dS^T Q
};
std::string_view name(AttentionRole role);  // "scores", "values", ...
inline bool is_forward(AttentionRole role) {
  return role == AttentionRole::Scores || role == AttentionRole::Values;
}

struct AttentionProduct {
  NodeId node;
  AttentionRole role = AttentionRole::Scores;
  // What is computed of it, as a share of the whole product: half of a causal one, since tiles
  // above the diagonal are skipped. If the forward part's probabilities are used by the derivative,
  // the scores count twice: a kernel that does not write them computes them again.
  double share = 1;
};

// An attention that a kernel such as flash attention computes without writing scores or
// probabilities: products, and between them nothing but elementwise ops, reductions over the keys
// and views on values of the size of the scores.
//
//   %s = dot_general %q, %k          scores     tensor<2x8x1024x1024>
//   scale, mask, %p = softmax(%s)    inner      never written
//   %o = dot_general %p, %v          values     tensor<2x8x1024x64>
//
// A part that is computed again for the derivative (scores behind an optimization_barrier) is an
// attention of its own; otherwise one attention has the products of both directions.
struct Attention {
  std::vector<AttentionProduct> products;  // in the order of the program
  std::vector<NodeId> inner;               // all other ops, those that make the mask included
  std::vector<ValueId> unwritten;          // results of the size of the scores
  std::vector<ValueId> reads;              // what enters: queries, keys, values, cotangents, a bias
  std::vector<ValueId> writes;             // what leaves: results of products
  bool is_causal = false;                  // a query sees no later key, by a mask of positions

  bool has_forward() const { return has(AttentionRole::Values); }
  bool has_backward() const { return has(AttentionRole::GradProbabilities); }
  bool has(AttentionRole role) const {
    for (const AttentionProduct& product : products)
      if (product.role == role) return true;
    return false;
  }
};

// Those of a region of a flat function, in the order of their scores. A softmax over the product of
// activations with a weight, such as that of a loss, is none: its product has no batch dimensions.
// Nor is an attention whose scores or probabilities are used by anything else.
std::vector<Attention> find_attention(const Graph& graph, RegionId region);

// What a kernel of tiles computes of a causal attention, in terms of its share: tiles on the
// diagonal are computed whole, and the last ones run alone, so that it takes as long as if every
// query saw 512 keys more. Measured with cuDNN on an H200; FlashAttention-2's figures (arXiv
// 2407.08608) say the same.
double share_of_tiles(const Graph& graph, const Attention& attention);

}  // namespace cleave::analyze
