#include "cleave/cli/files.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "cleave/core/error.h"

namespace cleave::cli {

std::string read_text(const std::string& path) {
  std::string text;
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    if (std::filesystem::is_directory(path)) throw_user("cannot read '{}': it is a folder", path);
    std::ifstream file(path, std::ios::binary);
    if (!file) throw_user("cannot read '{}'", path);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw_user("'{}' is empty; a module was expected", path == "-" ? "standard input" : path);
  return text;
}

}  // namespace cleave::cli
