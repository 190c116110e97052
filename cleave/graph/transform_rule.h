#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/graph.h"

namespace cleave {

// What the differentiation and batching rules of an op see. A transform reads one function and
// writes another into the same graph; a rule writes the part of it that belongs to one node.
//
// Tangents, cotangents: an invalid ValueId is a zero that nobody needs to compute. They have the
// type of the value that they belong to; values of integers and booleans never have one.

// `node` is a copy: the graph grows while the rule writes. `operands` and `results` are the values
// of the function being written that stand for the node's own; the transform has already written
// the op itself.
struct DiffContext {
  GraphBuilder& b;
  const Node& node;
  std::span<const ValueId> operands;
  std::span<const ValueId> results;
  // By operand, of a reverse rule: whether anybody asks for its cotangent. A rule may give it all
  // the same. Null: all are wanted.
  const std::vector<bool>* wanted = nullptr;

  bool wants(size_t i) const { return !wanted || (*wanted)[i]; }
  ValueId operand(size_t i = 0) const { return operands[i]; }
  ValueId result(size_t i = 0) const { return results[i]; }
};

// Tangents of the operands in, of the results out:       sine:  { mul(t[0], cosine(x)) }
using JvpFn = std::vector<ValueId> (*)(const DiffContext&, std::span<const ValueId> tangents);
// Cotangents of the results in, of the operands out:     dot:   { dot(ct, y^T), dot(x^T, ct) }
using VjpFn = std::vector<ValueId> (*)(const DiffContext&, std::span<const ValueId> cotangents);

// A value that holds one element per example along dimension `dim`, or the same for all examples
// if it has none.
struct Batched {
  static constexpr int64_t kNone = -1;
  ValueId value;
  int64_t dim = kNone;
  bool batched() const { return dim != kNone; }
};

// A function batched for arguments with given batch dimensions: its name, and what it returns.
struct BatchedFunction {
  std::string name;
  std::vector<int64_t> out_dims;  // Batched::kNone if a result is the same for all examples
};

// What the rules of ops with regions and of calls ask of the transform that they run in.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  // The mesh axis over which the batch dimension is sharded; empty if there is none.
  virtual std::string_view spmd_axis() const = 0;
  // Writes what a region computes through `b`, with `args` for its arguments, and gives what it
  // returns. May be called several times for one region.
  virtual std::vector<Batched> inline_region(GraphBuilder& b, RegionId region,
                                             std::span<const Batched> args) = 0;
  // The same for a region of scalars that is run `count` times: `args` and results are vectors.
  virtual std::vector<ValueId> map_region(GraphBuilder& b, RegionId region,
                                          std::span<const ValueId> args, int64_t count) = 0;
  // Gives `to` copies of the regions of `from`, which must not use batched values from outside.
  virtual void copy_regions(const Node& from, NodeId to) = 0;
  virtual BatchedFunction batch_function(std::string_view name, std::vector<int64_t> in_dims) = 0;
};

// The op has not been written: the rule writes the op that does the work of `size` of them. At
// least one operand, or one value from outside that a region of the op uses, is batched.
struct BatchContext {
  GraphBuilder& b;
  const Node& node;
  std::span<const Batched> operands;
  int64_t size;
  BatchTransform& transform;
};
using BatchFn = std::vector<Batched> (*)(const BatchContext&);

}  // namespace cleave
