#pragma once

#include <string>
#include <string_view>

#include "cleave/graph/graph.h"

namespace cleave::cli {

// Every command gets its modules here: read, and verified before anything else looks at them.
//
// A module from a file of StableHLO text or graph JSON, from standard input for "-", or a model by
// name (model:gpt?layers=2), whose arguments keep their names.
Graph read_module(const std::string& path);

// The same for a text that was read from `path`: JSON starts with a brace and a quote, and no other
// text does. Only `cleave opt --no-verify` leaves the verification out.
Graph module_of_text(std::string_view text, const std::string& path, size_t first_line = 1,
                     bool verify = true);

}  // namespace cleave::cli
