#include "cleave/models/module_source.h"

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/graph/json.h"
#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"

namespace cleave::models {
namespace {

bool is_json(std::string_view text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t brace = text.find_first_not_of(kSpace);
  if (brace == std::string_view::npos || text[brace] != '{') return false;
  const size_t next = text.find_first_not_of(kSpace, brace + 1);
  return next != std::string_view::npos && text[next] == '"';
}

}  // namespace

Graph module_of_text(std::string_view text, const std::string& path, size_t first_line,
                     bool verify) {
  if (is_json(text) || path.ends_with(".json"))
    return verify ? graph_from_json(text) : graph_from_json_unverified(text);
  return verify ? parse_module(text, path, first_line)
                : parse_module_unverified(text, path, first_line);
}

Graph load_module(const std::string& source) {
  if (is_model_name(source)) return build_model(source).graph;
  const std::string text = read_input_file(source);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw_user("'{}' is empty; a module was expected", source);
  return module_of_text(text, source);
}

}  // namespace cleave::models
