#pragma once

#include <optional>
#include <string>

#include "cleave/core/mesh.h"
#include "cleave/models/transformer.h"

namespace cleave::models {

// A transformer whose feed-forward layers are mixtures of experts: every token goes to the two
// experts that its router prefers, as far as they have room.
struct MoeConfig : GptConfig {
  int64_t experts = 4;
  double capacity_factor = 1.25;
  // Examples and experts lie over one axis of a mesh: tokens travel to their experts and back, by
  // an all_to_all each. If it is not set, propagation decides.
  struct Parallel {
    Mesh mesh;
    std::string axis;
  };
  std::optional<Parallel> parallel = {};

  // Tokens that one expert takes of each sequence: its share of two per token, with some room.
  int64_t capacity() const;
};

struct MoeWeights {
  Tensor norm;            // [d]
  Tensor router;          // [d, experts]
  Tensor gate, up, down;  // [experts, d, hidden] twice, [experts, hidden, d]
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("norm", norm);
    v("router", router);
    v("gate", gate);
    v("up", up);
    v("down", down);
  }
};

struct MoeLayer {
  AttentionWeights attention;
  MoeWeights moe;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("attention", attention);
    v("moe", moe);
  }
};

struct Moe {
  Tensor embed;
  std::vector<MoeLayer> layers;
  Tensor norm, head;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("embed", embed);
    v("layers", layers);
    v("norm", norm);
    v("head", head);
  }
};

Moe init_moe(const MoeConfig& config, Init& init);

// Which token of a sequence goes to which place of which expert, and with what weight.
struct Routing {
  Tensor dispatch;  // [b, s, experts, capacity]: 0 or 1
  Tensor combine;   // the same with weights; those of a token add up to 1 if both had room
  Tensor balance;   // a number: 1 if experts are used evenly, more if they are not
};
// Takes preferences [b, s, experts]. Places are given in the order of the tokens, to first choices
// first.
Routing route_top2(const Tensor& logits, int64_t capacity);

struct MoeOutput {
  Tensor value;
  Tensor balance;
};
MoeOutput mixture_of_experts(const MoeConfig& config, const MoeWeights& w, const Tensor& x);
// Tokens -> logits, and the mean of the layers' balance.
MoeOutput moe(const MoeConfig& config, const Moe& params, const Tensor& tokens);

}  // namespace cleave::models
