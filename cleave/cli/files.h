#pragma once

#include <string>

namespace cleave::cli {

// The whole of a file, or of standard input for "-". Throws UserError where it cannot be read, and
// where there is nothing but white space in it.
std::string read_text(const std::string& path);

}  // namespace cleave::cli
