#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/graph/graph.h"
#include "cleave/models/transformer.h"
#include "cleave/runtime/tensor.h"

namespace cleave::models {

// Models by name, as the command line knows them:
//
//   model:gpt                                            the loss of a small GPT
//   model:gpt?layers=4&d=256&heads=8&step=train          a step of AdamW
//   model:moe?experts=8&step=grad&dtype=bf16             loss and gradients
//
// Options are the sizes of the model's config, and
//   step=forward|loss|grad|train      loss if none is given
//   optimizer=adamw|momentum|sgd      of step=train
//   dtype=f32|bf16|f16                of the weights
//   seed=N                            of weights and inputs
//   sharding=replicated|data|megatron|fsdp|mixed|experts  needs a mesh: schemes.h
//   mesh=data=2,model=4               for the sharding
struct BuiltModel {
  Graph graph;                    // function "main"
  std::vector<Tensor> arguments;  // weights, optimizer state, inputs; computed when they are read
};

bool is_model_name(std::string_view text);  // starts with "model:"
// `mesh` is used if the name gives none. Throws UserError that names the model or option that does
// not exist, with those that do.
BuiltModel build_model(std::string_view text, const Mesh* mesh = nullptr);
// The names, with their options and defaults, a line each.
std::string describe_models();

// Weights by the names of their leaves: "layers[0].attention.q".
using Weights = std::map<std::string, Tensor>;

// A language model by name as functions, for programs that train it or generate text with it.
//
//   const LanguageModel model = language_model("model:gpt?layers=4&d=256&length=128");
//   Tensor loss = model.loss(model.weights, tokens);
struct LanguageModel {
  GptConfig config;  // the sizes
  Weights weights;   // the first ones; computed when they are read
  std::function<Tensor(const Weights&, const Tensor&)> forward;  // tokens [b, s] -> logits
  std::function<Tensor(const Weights&, const Tensor&)> loss;     // tokens [b, s] -> a number
  // The weights of a gpt as its functions take them (transformer.h, decode.h); empty for others.
  std::function<Gpt(const Weights&)> gpt;
};
// Of gpt and moe, with the options that are about the model: not step=, optimizer= and sharding=.
// Throws UserError as build_model does.
LanguageModel language_model(std::string_view text);

}  // namespace cleave::models
