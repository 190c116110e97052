#pragma once

#include <string>
#include <vector>

#include "cleave/models/transformer.h"

namespace cleave::models {

// Language models that people know by name: `model:gpt?size=llama3-8b`. Batch and length are those
// of the default config, except that a learned table of positions needs a length of its own.
struct ModelSize {
  std::string name;
  GptConfig config;
};
const std::vector<ModelSize>& model_sizes();

}  // namespace cleave::models
