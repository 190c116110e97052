#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// How values pass through the regions of an op. An op states its kind (OpDef::flow); the functions
// below are the only ones that know the wiring of each kind, and everything that follows values
// through regions and calls asks them.
enum class Flow : uint8_t {
  None,      // no regions, or regions of scalar code (reduce, sort, ...)
  Loop,      // stablehlo.while: a condition and a body, both over the carried values
  Branches,  // stablehlo.case, if: one of the regions runs; none has arguments
  Manual,    // sdy.manual_computation: a body over the parts of the operands
  Named,     // sdy.named_computation: a body over the operands
  Barrier,   // stablehlo.optimization_barrier: result i is operand i
  Scan,      // chlo.scan: a body over slices of the inputs and over the carried values
  Call,      // func.call, stablehlo.composite: the body is a function of the module
};
Flow flow_of(const Node& node);  // None for an op that is not registered

// One step of a value, with equal numbers at both ends:
//
//   Enter   operand -> argument of a region    while, manual and named computations, scan carries
//   Carry   end of the body -> argument        while, scan: the next trip
//   Leave   end of a region -> result          all that have regions
//   Skip    operand -> result                  barriers; loops of no trips
//
// Slices of a scan's inputs and outputs are no edges: their types differ. Nor are arguments and
// results of calls, which lie in another function.
struct FlowEdge {
  enum Kind : uint8_t { Enter, Carry, Leave, Skip };
  ValueId from, to;
  Kind kind;
};
std::vector<FlowEdge> flow_edges(const Graph& graph, const Node& node);

// A while with its parts.
struct LoopRegions {
  RegionId condition, body;
};
std::optional<LoopRegions> loop_of(const Node& node);  // nothing if the node is no loop

// chlo.scan: operands are inputs, then carries. The body takes slices of inputs and carries, and
// returns slices of outputs and carries; so does the op.
struct ScanParts {
  size_t inputs, carries, outputs;
};
ScanParts scan_parts(const Node& node);

// What a region returns: the operands of its terminator; nothing if it is empty.
std::vector<ValueId> returned_values(const Graph& graph, RegionId region);

// The name of the function that a call or composite runs; empty for all other ops.
std::string_view callee_name(const Node& node);
// That function; null for all other ops, and if the module has none of that name.
const Function* callee(const Graph& graph, const Node& node);
// That function; throws UserError if the module has none, or none with a body.
const Function& callee_with_body(const Graph& graph, const Node& node);

// The values that regions (or nodes) use and do not define, each once, in order of use.
std::vector<ValueId> captured_values(const Graph& graph, const std::vector<RegionId>& regions);
std::vector<ValueId> captured_by_nodes(const Graph& graph, const std::vector<NodeId>& nodes);

}  // namespace cleave
