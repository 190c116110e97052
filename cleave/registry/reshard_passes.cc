#include "cleave/spmd/reshard_passes.h"
#include "cleave/registry/pass_families.h"

namespace cleave {

void register_reshard_passes(PassRegistry& registry) {
  registry.add({"sdy-reshard-to-collectives",
                {"keep-redundant-reshards", "machine"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  convert_reshards_to_collectives(graph,
                                                  load_profile(options.get("machine", "default")),
                                                  options.get_bool("keep-redundant-reshards"));
                }});
  registry.add({"sdy-insert-explicit-reshards",
                {"enable-full-version"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  insert_explicit_reshards(graph, options.get_bool("enable-full-version"));
                }});
}

}  // namespace cleave
