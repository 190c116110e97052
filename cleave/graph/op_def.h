#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/op_cost.h"
#include "cleave/core/sharding_rule.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/graph.h"
#include "cleave/graph/local_op.h"
#include "cleave/graph/transform_rule.h"

namespace cleave {

class Array;         // cleave/kernels/array.h
struct ElementLoop;  // cleave/kernels/loop.h
class EvalContext;   // cleave/ops/eval.h

// Facts that an op states about itself, so that passes ask and never list ops.
enum Trait : uint32_t {
  kElementwise = 1 << 0,  // result element i depends on operand elements i alone; shapes are equal
  kPure = 1 << 1,         // no effect but its results; may be dropped or computed twice
  kTerminator = 1 << 2,
  kCollective = 1 << 3,  // talks to other devices
  kCommutative = 1 << 4,
  kConstantLike = 1 << 5,  // no operands, known value: constant, iota
  kDataFlow = 1 << 6,  // values flow through it and its regions: while, case, optimization_barrier
  kCall = 1 << 7,
  kViewLike = 1 << 8,  // moves elements, computes none: reshape, transpose, broadcast, slice
  kIsolated = 1 << 9,  // its regions see only their own arguments, and no value from around it

  kReadsBits = 1 << 10,     // sees the bits of an integer and not its value: popcnt
  kReadsWidth = 1 << 11,    // a wider type gives another result: next_after, bitcast_convert
  kSmooth = 1 << 12,        // has all derivatives: functions made of few such ops do not agree on
                            // many points by chance
  kSlowFunction = 1 << 13,  // takes longer than reading its operands: fusions repeat few of them
};

using InferFn = std::vector<Type> (*)(const Graph&, const Node&);
using VerifyFn = void (*)(const Graph&, const Node&);
using RuleFn = OpShardingRule (*)(const Graph&, const Node&);
using PartialFn = PartialTransfer (*)(const Graph&, const Node&);
using CostFn = OpCost (*)(const Graph&, const Node&);
// Whether a device can run its part along a factor. Null: as the kind of the factor says.
using ShardableFn = bool (*)(const Graph&, const Node&, const OpShardingRule&, FactorIndex);
using EvalFn = std::vector<Array> (*)(EvalContext&, const Node&, std::span<const Array>);
// Bytes that the kernel takes for itself and gives back, from the shapes and strides of the
// operands: no element is read.
using WorkspaceFn = int64_t (*)(const Graph&, const Node&, std::span<const Array>);
// The results, if they are views of operands whatever the elements are; empty if a kernel runs.
using AliasFn = std::vector<Array> (*)(const Graph&, const Node&, std::span<const Array>);
// The loop that computes an elementwise op on contiguous elements; a null one where there is none.
using ElementLoopFn = ElementLoop (*)(const Graph&, const Node&);

// Whether the kernel writes its result into the memory of an operand that nobody else holds.
enum class InPlace : uint8_t { Never, FirstOperand, AnyOperand };

// Everything known about one op, in one place: its family's file in cleave/ops. A null slot means
// that the op has no such thing (no kernel, carries no partials); a null cost means the bytes of
// operands and results, and one flop per result element where the op is elementwise.
struct OpDef {
  std::string name;  // "stablehlo.add"
  uint32_t traits = 0;
  Flow flow = Flow::None;             // how values pass through its regions
  const char* callee_attr = nullptr;  // of a call: the attribute that names the function
  InferFn infer = nullptr;            // result types from operands and attributes; throws UserError
  VerifyFn verify = nullptr;          // what infer does not cover: attributes, regions
  RuleFn rule = nullptr;
  PartialFn partial = nullptr;
  CostFn cost = nullptr;
  EvalFn eval = nullptr;
  ElementLoopFn loop =
      nullptr;  // of an elementwise op: for chains that are computed block by block
  LocalizeFn localize = nullptr;  // the part of one device; null: the same op on smaller shapes
  NeedsFn needs = nullptr;        // operand elements beyond the device's own; see local_op.h

  ShardableFn shardable = nullptr;

  JvpFn jvp = nullptr;      // forward derivative; see transform_rule.h
  VjpFn vjp = nullptr;      // reverse derivative
  BatchFn batch = nullptr;  // many at once; null with kElementwise: along a leading dimension

  InPlace in_place = InPlace::Never;
  WorkspaceFn workspace = nullptr;  // null: the operands that an elementwise loop packs
  AliasFn alias = nullptr;          // null: a kernel makes the results
  bool forwards = false;            // its results are its operands under other names

  bool has(Trait trait) const { return traits & trait; }
};

// Filled once, at first use, from the families of cleave/ops; then constant.
class OpRegistry {
 public:
  OpDef& add(OpDef def);  // the name must be new
  const OpDef* find(std::string_view name) const;
  // Adds to an op that is registered; throws InternalError if none has this name.
  void extend(std::string_view name, const std::function<void(OpDef&)>& change);
  const std::map<std::string, OpDef, std::less<>>& ops() const { return ops_; }

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
};

const OpRegistry& op_registry();              // cleave/registry/ops.cc: one line per family
const OpDef* find_op(std::string_view name);  // null where nobody knows the op

}  // namespace cleave
