#include "cleave/transforms/trace.h"

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/transforms/resize.h"

namespace cleave {
std::string Trace::text() const { return print_module(graph); }

std::vector<Tensor> Trace::replay(std::span<const Tensor> args) const {
  if (args.size() != num_args())
    throw_user("a trace of {} arguments is replayed with {}", num_args(), args.size());
  std::vector<Tensor> all(args.begin(), args.end());
  all.insert(all.end(), captures.begin(), captures.end());
  std::vector<Type> types;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].valid())
      throw_user("a trace is replayed with an empty Tensor for '{}'", arg_names[i]);
    types.push_back(all[i].type());
  }
  if (types == graph.functions[0].arg_types) return cleave::replay(graph, graph.functions[0], all);
  const Graph resized = with_argument_types(graph, types, arg_names);
  return cleave::replay(resized, resized.functions[0], all);
}

Trace trace_detail::finish(TraceScope& scope, const std::vector<Tensor>& results,
                           std::vector<std::string> arg_names,
                           std::vector<std::string> result_names) {
  Traced traced = scope.finish(results);
  return {std::move(traced.graph), std::move(traced.captures), std::move(arg_names),
          std::move(result_names)};
}

}  // namespace cleave
