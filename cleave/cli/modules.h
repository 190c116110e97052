#pragma once

#include <string>

#include "cleave/graph/graph.h"

namespace cleave::cli {

// A module from a file of StableHLO text or graph JSON (told by its ending), from standard input
// for "-", or a model by name (model:gpt?layers=2), whose arguments keep their names.
Graph read_module(const std::string& path);

}  // namespace cleave::cli
