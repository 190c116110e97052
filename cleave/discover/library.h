#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/discover/operator.h"
#include "cleave/graph/builder.h"

namespace cleave {

// Writes the body of an operator for given operands and attributes; throws UserError if they do
// not fit.
using BodyFn =
    std::function<std::vector<ValueId>(GraphBuilder&, const AttrMap&, std::span<const ValueId>)>;

// An operator with a visible definition in StableHLO. The body is built once per set of shapes and
// attributes, and kept.
Operator operator_with_body(std::string name, BodyFn body, std::vector<Sample> samples);
// The same with the whole graph of a call, a function "main", made by the caller.
using CallFn = std::function<Graph(const std::vector<TensorDesc>&, const AttrMap&)>;
Operator operator_with_graph(std::string name, CallFn make, std::vector<Sample> samples);
// The graph of one call, with a function "main".
Graph build_body(const BodyFn& body, std::span<const TensorDesc> operands, const AttrMap& attrs);

// The operators that `cleave discover NAME` knows beside the ops of the registry: array functions
// such as cross, softmax, cumsum, argmax, norm, matmul, where, embedding, bucketize, view.
const std::vector<Operator>& operator_library();
const Operator* find_operator(std::string_view name);  // null if there is none

// Samples for one or more shapes of each operand, crossed with values of attributes.
std::vector<Sample> cross_samples(const std::vector<std::vector<TensorDesc>>& operand_sets,
                                  const std::vector<AttrMap>& attr_sets);

// Families of the library, one file each.
void add_elementwise_operators(std::vector<Operator>& library);
void add_reduction_operators(std::vector<Operator>& library);
void add_array_operators(std::vector<Operator>& library);

}  // namespace cleave
