#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"

// Any text either parses or is a UserError. What parses prints, and what prints parses to the same
// text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  cleave::Graph graph;
  try {
    graph = cleave::parse_module(text);
  } catch (const cleave::UserError&) {
    return 0;
  }
  const std::string printed = cleave::print_module(graph);
  const std::string again = cleave::print_module(cleave::parse_module(printed));
  if (printed != again) std::abort();
  cleave::PrintOptions generic;
  generic.generic = true;
  cleave::parse_module(cleave::print_module(graph, generic));
  return 0;
}
