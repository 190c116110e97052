#include "cleave/registry/pass_families.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {

bool simplify(Graph& graph, int rounds) {
  bool any = canonicalize(graph);
  for (int round = 0; round < rounds; ++round) {
    bool changed = fold_constants(graph);
    changed |= simplify_arithmetic(graph);
    changed |= simplify_views(graph);
    changed |= merge_common(graph);
    changed |= remove_dead(graph);
    any |= changed;
    if (!changed) break;
  }
  return any;
}

void register_simplify_passes(PassRegistry& registry) {
  auto add = [&](const char* name, bool (*change)(Graph&)) {
    registry.add(
        {name, {}, [change](Graph& graph, const PassOptions&, PassContext&) { change(graph); }});
  };
  add("cleave-expand", expand);
  add("cleave-canonicalize", canonicalize);
  add("cleave-fold-constants", fold_constants);
  add("cleave-simplify-arithmetic", simplify_arithmetic);
  add("cleave-simplify-views", simplify_views);
  add("cleave-merge-common", merge_common);
  add("cleave-remove-dead", remove_dead);
  registry.add({"cleave-inline-calls", {}, [](Graph& graph, const PassOptions&, PassContext&) {
                  inline_calls(graph);
                }});
  registry.add(
      {"cleave-simplify", {"rounds"}, [](Graph& graph, const PassOptions& options, PassContext&) {
         simplify(graph, static_cast<int>(options.get_int("rounds", 4)));
       }});
}

}  // namespace cleave
