#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/graph/op_def.h"

// What batching rules are made of. "Front" is dimension 0; most rules bring the batch dimension
// there, and add one to the dimensions that their attributes name.
namespace cleave {

// tensor<2x3xf32> with 4 inserted at 1 -> tensor<2x4x3xf32>; each element of a tuple
Type with_dim(Type type, int64_t dim, int64_t size);
// {0, 2} -> {1, 3}
std::vector<int64_t> shifted(std::vector<int64_t> dims);
// 1, {0, 2} -> {1, 0, 2}
std::vector<int64_t> prepended(int64_t first, std::vector<int64_t> rest);

// The type of operand or result i of the node: of one example. A copy, as the graph grows.
Type operand_type(const BatchContext& c, size_t i);
Type result_type(const BatchContext& c, size_t i = 0);
std::vector<Type> batched_result_types(const BatchContext& c, int64_t dim = 0);

// A value with its batch dimension at `dim`: moved there, or made by broadcasting.
ValueId batched_at(const BatchContext& c, const Batched& value, int64_t dim);
inline ValueId at_front(const BatchContext& c, const Batched& value) {
  return batched_at(c, value, 0);
}
std::vector<ValueId> all_at_front(const BatchContext& c);
// The dimension `from` of a value at place `to`, the others in order.
ValueId move_dim(GraphBuilder& b, ValueId value, int64_t from, int64_t to);
// [.., a, b, ..] -> [.., a*b, ..] at `dim`, and back: `size` is that of the first of the two.
ValueId merge_dims(GraphBuilder& b, ValueId value, int64_t dim);
ValueId split_dim(GraphBuilder& b, ValueId value, int64_t dim, int64_t size);

bool any_batched(std::span<const Batched> values);
// 0, 3 -> {0, 1, 2}
std::vector<int64_t> counting(int64_t from, size_t count);

// Every result as batched at `dim`.
std::vector<Batched> all_batched(const std::vector<ValueId>& values, int64_t dim = 0);

// Writes the op itself, regions included, with the given operands, attributes and result types, or
// with the batch dimension of every result at `dim`. Shardings of results are left to the
// transform.
std::vector<ValueId> emit_self(const BatchContext& c, std::vector<ValueId> operands,
                               std::vector<Type> types, AttrDict attrs);
std::vector<Batched> emit_self(const BatchContext& c, std::vector<ValueId> operands, AttrDict attrs,
                               int64_t dim = 0);

// The rule of ops that would have to happen once for every example, but cannot: it throws a
// UserError that says so, even if nothing that they use differs between examples.
std::vector<Batched> batch_effect(const BatchContext& c);

// The rule of ops whose operands and results all have one shape: along the batch dimension of the
// first operand that has one. The operands listed in `scalars` may be of rank 0 beside others, and
// then stay as they are if they are the same for all examples.
std::vector<Batched> batch_elementwise(const BatchContext& c);
std::vector<Batched> batch_with_scalars(const BatchContext& c,
                                        std::initializer_list<size_t> scalars);
// The rule of ops that work on trailing dimensions: batch dimensions of all operands in front, the
// attributes unchanged.
std::vector<Batched> batch_in_front(const BatchContext& c);
// The rule of ops whose result i is operand i.
std::vector<Batched> batch_identity(const BatchContext& c);
// One example after the other, in a stablehlo.while: for what cannot be done at once.
std::vector<Batched> batch_by_loop(const BatchContext& c);

// while (condition(values)) values = body(values)
using LoopFn = std::function<std::vector<ValueId>(GraphBuilder&, std::span<const ValueId>)>;
std::vector<ValueId> emit_while(
    GraphBuilder& b, std::vector<ValueId> inits,
    const std::function<ValueId(GraphBuilder&, std::span<const ValueId>)>& condition,
    const LoopFn& body);

// A spec with a dimension for the batch: over the spmd axis, or open if there is none. Throws a
// UserError that names `what` if the spec uses the axis already.
//   [{"x"}, {}] with "data" at 0 -> [{"data"}, {"x"}, {}]
ShardingSpec with_batch_dim(ShardingSpec spec, int64_t dim, std::string_view spmd_axis,
                            std::string_view what);

}  // namespace cleave
