#include "cleave/cli/modules.h"

#include "cleave/cli/files.h"
#include "cleave/models/module_source.h"
#include "cleave/models/registry.h"

namespace cleave::cli {

Graph module_of_text(std::string_view text, const std::string& path, size_t first_line,
                     bool verify) {
  return models::module_of_text(text, path == "-" ? "<stdin>" : path, first_line, verify);
}

Graph read_module(const std::string& path) {
  if (models::is_model_name(path)) return models::load_module(path);
  return module_of_text(read_text(path), path);
}

}  // namespace cleave::cli
