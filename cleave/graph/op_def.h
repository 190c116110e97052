#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

enum class CollectiveKind : uint8_t;  // cleave/machine/profile.h

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
  kViewLike = 1 << 8,       // moves elements, computes none: reshape, transpose, broadcast, slice
  kIsolated = 1 << 9,       // its regions see only their own arguments, and no value from around it
  kReadsBits = 1 << 10,     // sees the bits of an integer and not its value: popcnt
  kReadsWidth = 1 << 11,    // a wider type gives another result: next_after, bitcast_convert
  kSmooth = 1 << 12,        // has all derivatives: functions made of few such ops do not agree on
                            // many points by chance
  kSlowFunction = 1 << 13,  // takes longer than reading its operands: fusions repeat few of them
  // The result is operand 0, with another layout or name: sdy.reshard, sdy.all_gather, edges.
  kSameValue = 1 << 18,
  // If its operands are constants, it is an expression of which every user may have a copy
  // (split_constants). Pure elementwise ops are such expressions without this trait.
  kKeepsConstants = 1 << 19,
  // The result is operand 0 in another element type, shape or order of dimensions: convert,
  // reshape, transpose.
  kRelabels = 1 << 22,
  kWindow = 1 << 23,     // the result is a window of operand 0: slice, dynamic_slice
  kRepeats = 1 << 24,    // elements of operand 0 stand in several places: broadcast_in_dim
  kAssembles = 1 << 26,  // puts operands together, computes nothing: pad, concatenate, updates
  // It steers propagation and says nothing else: a program does without it. Barriers, edges.
  kSteersPropagation = 1 << 25,
};

// How eagerly shardings pass through an op in op-priority propagation (rules/propagate): in which
// stage, and in which direction first.
enum class PropagationClass : uint8_t {
  Elementwise,   // first
  PassThrough,   // first: reshape, transpose, data-flow edges
  DynamicSlice,  // first, but only forward
  Broadcast,     // backward before forward
  Other,
  Barrier,  // in the direction that it allows, always
};

using InferFn = std::vector<Type> (*)(const Graph&, const Node&);
using VerifyFn = void (*)(const Graph&, const Node&);
using RuleFn = OpShardingRule (*)(const Graph&, const Node&);
using PartialFn = PartialTransfer (*)(const Graph&, const Node&);
using CostFn = OpCost (*)(const Graph&, const Node&);
// Whether a device can run its part along a factor. Null: as the kind of the factor says.
using ShardableFn = bool (*)(const Graph&, const Node&, const OpShardingRule&, FactorIndex);
using EvalFn = std::vector<Array> (*)(EvalContext&, const Node&, std::span<const Array>);
using PropagationClassFn = PropagationClass (*)(const Graph&, const Node&);
// Takes from the rule what conservative propagation leaves out.
using ConservativeFn = void (*)(const Graph&, const Node&, OpShardingRule&);
// Bytes that the kernel takes for itself and gives back, from the shapes and strides of the
// operands: no element is read.
using WorkspaceFn = int64_t (*)(const Graph&, const Node&, std::span<const Array>);
// The results, if they are views of operands whatever the elements are; empty if a kernel runs.
using AliasFn = std::vector<Array> (*)(const Graph&, const Node&, std::span<const Array>);
// The loop that computes an elementwise op on contiguous elements; null if there is none.
using ElementLoopFn = ElementLoop (*)(const Graph&, const Node&);

// Whether the kernel writes its result into the memory of an operand that nothing else holds.
enum class InPlace : uint8_t { Never, FirstOperand, AnyOperand };

// What asks for the ops that an op consists of.
enum ExpandUse : uint8_t {
  kInPrograms = 1 << 0,     // the compiler: the parts are fused and planned, instead of the whole
  kInDerivatives = 1 << 1,  // derivatives: an op without a rule, or with none for this node
};
// Writes the ops that a node consists of, and gives the values of its results; gives nothing if
// this node has no such form. `node` is a copy, because the graph grows; `operands` stand for the
// node's own. In programs the nodes inside its regions may be moved, since the node goes.
using ExpandFn = std::vector<ValueId> (*)(GraphBuilder& b, const Node& node,
                                          std::span<const ValueId> operands, ExpandUse use);

// Everything known about one op, in one place: its family's file in cleave/ops. A null slot means
// that the op has no such thing (no kernel, carries no partials); a null cost means the bytes of
// operands and results, and one flop per result element if the op is elementwise.
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

  // Null: Elementwise with kElementwise, else Other.
  PropagationClassFn propagation_class = nullptr;
  // Null: nothing propagates along permutation factors.
  ConservativeFn conservative = nullptr;
  // Of a collective that users write: how it is priced.
  std::optional<CollectiveKind> collective = std::nullopt;
  // Calls of it to try, as functions in MLIR's syntax, and why it has none; see
  // discover/certify.h.
  const char* samples = nullptr;
  const char* why_no_sample = nullptr;

  ExpandFn expand = nullptr;  // the ops that it consists of
  uint8_t expand_uses = 0;    // the ExpandUses that `expand` is for
  // Why it needs no derivative ("integers", "token", ...); transforms/derivative_support.h explains
  // the words.
  const char* no_derivative = nullptr;

  // No family defines the op: it has a name, and nothing else is known. It is kept and printed.
  bool opaque = false;

  bool has(Trait trait) const { return traits & trait; }
  bool expands_in(ExpandUse use) const { return expand && (expand_uses & use); }
};

// A PropagationClassFn for ops that are of one class, whatever their attributes:
//   .propagation_class = always<PropagationClass::Broadcast>
template <PropagationClass kClass>
PropagationClass always(const Graph&, const Node&) {
  return kClass;
}
PropagationClass propagation_class(const Graph& graph, const Node& node);

// Filled once, at first use, from the families of cleave/ops; then constant.
class OpRegistry {
 public:
  OpRegistry() = default;
  OpRegistry(OpRegistry&&) = default;  // not copied: definitions are known by their address

  OpDef& add(OpDef def);  // the name must be new
  const OpDef* find(std::string_view name) const;
  // Adds to an op that is registered; throws InternalError if none has this name.
  void extend(std::string_view name, const std::function<void(OpDef&)>& change);
  const std::map<std::string, OpDef, std::less<>>& ops() const { return ops_; }

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
  std::unordered_map<std::string_view, const OpDef*> by_name_;  // of ops_, whose nodes do not move
};

const OpRegistry& op_registry();  // cleave/registry/ops.cc: one line per family

const OpDef* find_op(std::string_view name);      // null if no family defines the op
const OpDef& required_op(std::string_view name);  // throws InternalError if no family defines it
// The definition of any op. One that no family defines gets an opaque definition when its name is
// first seen, the same for all nodes of this name and all threads, for the life of the process.
const OpDef& op_named(std::string_view name);

}  // namespace cleave
