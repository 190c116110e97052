#pragma once

#include <string>
#include <string_view>

namespace cleave::cli {

// The whole of a file, or of standard input for "-"; of "model:gpt?layers=2", the StableHLO of that
// model (cleave/models/registry.h). Throws UserError if it cannot be read, and
// if there is nothing but white space in it: "'x.mlir' is empty; a module was expected".
std::string read_text(const std::string& path, std::string_view expected = "a module");

}  // namespace cleave::cli
