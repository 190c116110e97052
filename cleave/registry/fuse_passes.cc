#include "cleave/compile/epilogue.h"
#include "cleave/compile/fuse.h"
#include "cleave/compile/overlap.h"
#include "cleave/compile/recompute.h"
#include "cleave/registry/pass_families.h"

namespace cleave {

void register_fuse_passes(PassRegistry& registry) {
  registry.add({"cleave-fuse",
                {"longest-row", "most-nodes"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  FuseOptions fuse_options;
                  fuse_options.longest_row =
                      options.get_int("longest-row", fuse_options.longest_row);
                  fuse_options.most_nodes = static_cast<size_t>(
                      options.get_int("most-nodes", static_cast<int64_t>(fuse_options.most_nodes)));
                  fuse(graph, fuse_options);
                }});
  registry.add({"cleave-recompute",
                {"distance", "most-expensive"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  RecomputeOptions recompute_options;
                  recompute_options.distance = static_cast<size_t>(options.get_int(
                      "distance", static_cast<int64_t>(recompute_options.distance)));
                  recompute_options.most_expensive = static_cast<size_t>(options.get_int(
                      "most-expensive", static_cast<int64_t>(recompute_options.most_expensive)));
                  recompute(graph, recompute_options);
                }});
  registry.add({"cleave-fuse-epilogues", {}, [](Graph& graph, const PassOptions&, PassContext&) {
                  fuse_epilogues(graph);
                }});
  registry.add({"cleave-overlap",
                {"latency-us", "link-mb"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  overlap_transfers(graph, overlap_options(options));
                }});
}

}  // namespace cleave
