#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/registry/pass_families.h"

namespace cleave {
namespace {

// Prints and reads the module again: what a tool between two processes would see.
void round_trip(Graph& graph, const PassOptions& options, PassContext&) {
  PrintOptions print;
  print.generic = options.get_bool("generic");
  graph = parse_module_unverified(print_module(graph, print), "<round-trip>");
}

void verify_pass(Graph& graph, const PassOptions& options, PassContext&) {
  VerifyOptions verify;
  verify.types = options.get_bool("types", true);
  verify.shardings = options.get_bool("shardings", true);
  verify_graph(graph, verify);
}

}  // namespace

void register_basic_passes(PassRegistry& registry) {
  registry.add({"cleave-round-trip", {"generic"}, round_trip});
  registry.add({"cleave-verify", {"types", "shardings"}, verify_pass});
}

}  // namespace cleave
