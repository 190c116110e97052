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
      throw_user("a trace is replayed with an empty Tensor for argument {}{}", i,
                 arg_names[i].empty() ? "" : " (" + arg_names[i] + ")");
    types.push_back(all[i].type());
  }
  if (types == graph.functions[0].arg_types) return cleave::replay(graph, graph.functions[0], all);
  const Graph resized = with_argument_types(graph, types, arg_names);
  if (!knows_sizes)
    throw_user(
        "a trace is replayed with other sizes, and was made without finding out which may change; "
        "trace the function with other_sizes");
  for (const HeldSize& size : held) {
    const Type& traced = graph.functions[0].arg_types[size.argument];
    if (types[size.argument].shape[size.dim] == traced.shape[size.dim]) continue;
    throw_user(
        "a trace is replayed with {} for argument {}{}, which was {}, and the size of dimension {} "
        "can not change: {}; trace the function again",
        to_string(types[size.argument]), size.argument,
        arg_names[size.argument].empty() ? "" : " (" + arg_names[size.argument] + ")",
        to_string(traced), size.dim, size.why);
  }
  return cleave::replay(resized, resized.functions[0], all);
}

void trace_detail::throw_empty_argument(const std::string& path) {
  const size_t end = path.find(']');
  throw_user("argument {} of a traced function {} an empty Tensor: assign it a value first",
             path.substr(1, end - 1),
             end + 1 == path.size()
                 ? "is"
                 : "has '" + path.substr(end + 1 + (path[end + 1] == '.')) + "',");
}

Trace trace_detail::finish(TraceScope& scope, const std::vector<Tensor>& results,
                           std::vector<std::string> arg_names,
                           std::vector<std::string> result_names) {
  Traced traced = scope.finish(results);
  Trace trace;
  trace.graph = std::move(traced.graph);
  trace.captures = std::move(traced.captures);
  trace.arg_names = std::move(arg_names);
  trace.result_names = std::move(result_names);
  return trace;
}

}  // namespace cleave
