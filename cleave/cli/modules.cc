#include "cleave/cli/modules.h"

#include "cleave/cli/files.h"
#include "cleave/graph/json.h"
#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"

namespace cleave::cli {

Graph read_module(const std::string& path) {
  if (models::is_model_name(path)) return models::build_model(path).graph;
  const std::string text = read_text(path);
  return path.ends_with(".json") ? graph_from_json(text) : parse_module(text, path);
}

}  // namespace cleave::cli
