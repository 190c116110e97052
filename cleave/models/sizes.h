#pragma once

#include <string>
#include <vector>

#include "cleave/models/transformer.h"

namespace cleave::models {

// Language models that people know by name: `model:gpt?size=llama3-8b`. Batch and length are those
// of the default config; a learned table of positions has as many rows as the length says.
struct ModelSize {
  std::string name;
  GptConfig config;
};
const std::vector<ModelSize>& model_sizes();

}  // namespace cleave::models
