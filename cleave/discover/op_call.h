#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/discover/operator.h"
#include "cleave/graph/graph.h"

namespace cleave {

// A call of a registered op as a module: the function "main" holds that op, and before it the
// constants that it needs as operands (the shape of a dynamic_reshape). Arguments are operands of
// the op in their order, and may say which numbers they take:
//
//   func.func @main(%a: tensor<6x4xf64>, %i: tensor<5xi64> {discover.domain = "index",
//                                                          discover.limit = 6 : i64}) -> ...
NodeId called_op(const Graph& call);

// For each operand of the op the argument that it is; nothing if it is a constant.
std::vector<std::optional<size_t>> arguments_of(const Graph& call);

// The call as a sample: the types of arguments, and the attributes that a user may set. Structured
// attributes are flattened, so that dot_dimension_numbers shows as lhs_contracting_dimensions=[2]
// and so on. Two names are not attributes of the op: `body`, the one op of a reducer's region, and
// `result`, the shape of a result that is part of the op (reshape, broadcast_in_dim).
Sample sample_of(const Graph& call);
// The types of the arguments of "main" alone, and which numbers they take.
Sample sample_of_arguments(const Graph& call);

// The same op for other shapes and attributes; types of results are inferred. Throws a UserError
// that lists the attributes if they do not fit.
Graph with_sample(const Graph& call, const std::vector<TensorDesc>& operands, const AttrMap& attrs);

// The placements of the op's operands if its arguments have these; constants are replicated.
std::vector<Placement> with_constants(const Graph& call, const std::vector<Placement>& arguments);

// Whether the shape of the result is part of the op, as that of a reshape.
bool has_explicit_result(const Graph& call);

}  // namespace cleave
