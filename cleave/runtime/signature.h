#pragma once

#include <span>

#include "cleave/runtime/record.h"
#include "cleave/spmd/program.h"

namespace cleave {

// The signature of a form on operands: found, or made by writing the form, inferring types and
// partitioning it alone. Keys are compared in full; a hash only finds them. A thread has its own
// table, so recording takes no lock.
SignaturePtr find_signature(FormFn form, std::span<const int64_t> params,
                            std::span<const Tensor> operands);
// The same for a function that is there: function "main", an argument per operand.
SignaturePtr find_signature(Graph graph, std::span<const Tensor> operands);

// A hash of the ops of a module's first function, and whether two modules are the same: node for
// node, with the functions that are called and what is said about arguments and results.
uint64_t structure_hash(const Graph& graph);
bool same_structure(const Graph& a, const Graph& b);

// How result i of a partitioned function lies, with what else is said of it: axes that are to stay
// replicated, and priorities.
ShardingSpec result_spec(const Program& program, size_t i);

// Sets "sdy.sharding" of argument i of a function.
void annotate_argument(Function& function, size_t i, const ShardingSpec& spec);

}  // namespace cleave
