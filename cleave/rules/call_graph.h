#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/graph/graph.h"

namespace cleave {

// Attributes of functions that Shardy's passes leave for each other.
inline constexpr std::string_view kOriginalName = "sdy.original_func_name";
inline constexpr std::string_view kFunctionManualAxes = "sdy.func_manual_axes";
inline constexpr std::string_view kExecutionThread = "execution_thread";

// The number of the function of this name; throws UserError if there is none.
int function_named(const Graph& graph, std::string_view name);
// The function that a func.call runs, by number.
int function_called(const Graph& graph, const Node& call);
void set_callee(Node& call, std::string name);

// The calls in a region or function; inner ones before those around them.
std::vector<NodeId> calls_in(const Graph& graph, RegionId region);
std::vector<NodeId> calls_in(const Graph& graph, int function);
// Callees before their callers; of functions that do not call each other, the earlier in the module
// first.
std::vector<int> call_graph_post_order(const Graph& graph);
// All calls of the module in that order of the functions that they stand in.
std::vector<NodeId> calls_in_post_order(const Graph& graph);

// The name that a function had before it was copied.
std::string original_name(const Function& function);

// f, f_0, f_1, ...: the numbers go on over all names, as MLIR's symbol table counts.
class FreshNames {
 public:
  explicit FreshNames(const Graph& graph, int counter = 0);
  std::string operator()(const std::string& name);
  int counter() const { return counter_; }

 private:
  std::set<std::string> taken_;
  int counter_;
};

// A copy of a function and, recursively, of everything that it calls. Returns its name.
std::string clone_function(Graph& graph, int function, FreshNames& names);
// The call gets a copy of its function, and of everything that this calls, to itself. `counter`
// numbers the new names over several calls.
void clone_callee(Graph& graph, NodeId call, int& counter);

// The shardings of arguments or results, open for one that has none; empty if none has any.
std::vector<ShardingSpec> shardings_of(const std::vector<AttrDict>& attrs,
                                       const std::vector<Type>& types);

// Makes the terminator of a body one of another op: sdy.return in a named computation, func.return
// in a function.
void retarget_terminator(Graph& graph, RegionId body, std::string_view op);

}  // namespace cleave
