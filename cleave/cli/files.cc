#include "cleave/cli/files.h"

#include <filesystem>
#include <fstream>

#include "cleave/cli/ranks.h"
#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"
#include "cleave/runtime/world.h"

namespace cleave::cli {

namespace {

// Of several ranks, only rank 0 has a standard input; the others get it from there.
std::string standard_input() {
  std::string text;
  if (speaks()) text = read_standard_input();
  World* world = World::of_process();
  if (!world) return text;
  const auto size = static_cast<int64_t>(text.size());
  const Array bytes = world->gather({Array::from_bytes(DType::U8, {size}, text.data())},
                                    "reading standard input")[0][0];
  return {bytes.data<char>(), static_cast<size_t>(bytes.num_elements())};
}

}  // namespace

std::string read_text(const std::string& path, std::string_view expected) {
  if (models::is_model_name(path)) return print_module(models::build_model(path).graph);
  std::string text;
  if (path == "-") {
    text = standard_input();
  } else {
    text = read_input_file(path);
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw_user("'{}' is empty; {} was expected", path == "-" ? "standard input" : path, expected);
  return text;
}

}  // namespace cleave::cli
