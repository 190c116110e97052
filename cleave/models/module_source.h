#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cleave/graph/graph.h"

namespace cleave::models {

// Modules as people give them: a text, a file, a name. Each is verified before anything else looks
// at it; only `cleave opt --no-verify` leaves that out.

// StableHLO text or graph JSON, which starts with a brace and a quote (no other text does), or
// comes from a path that ends with .json. `path` and `first_line` are for messages.
Graph module_of_text(std::string_view text, const std::string& path, size_t first_line = 1,
                     bool verify = true);

// From a file of either, or a model by name (model:gpt?layers=2), whose arguments keep their names.
Graph load_module(const std::string& source);

}  // namespace cleave::models
