#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/op_cost.h"
#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

namespace cleave {

class Array;  // cleave/kernels/array.h

// The functions of an op that a program made known while it runs. They are called by any thread,
// and by several at once. The attributes of the node that they get include what backend_config
// holds, as JAX writes the attributes of a call.
using RuleOfCall = std::function<OpShardingRule(const Graph&, const Node&)>;
using PartialOfCall = std::function<PartialTransfer(const Graph&, const Node&)>;
using CostOfCall = std::function<OpCost(const Graph&, const Node&)>;
// Result types from operand types and attributes. Throws UserError if they do not fit.
using TypesOfCall = std::function<std::vector<Type>(std::span<const Type>, const AttrDict&)>;
// Computes on one device's arrays. Throws UserError if it does not take them.
using KernelOfCall = std::function<std::vector<Array>(const AttrDict&, std::span<const Array>)>;

// What is known of the op; empty functions: nothing. An entry never changes once it is found.
struct RegisteredOp {
  std::string name;
  RuleOfCall rule;
  PartialOfCall partial;
  TypesOfCall types;
  CostOfCall cost;
  KernelOfCall kernel;
};
using RegisteredOpPtr = std::shared_ptr<const RegisteredOp>;

// The table of this process, by name; for all threads. `cleave/ops/custom_call/register_op.h` has
// the calls that users make.
RegisteredOpPtr find_registered(std::string_view name);  // null if there is none
// Calls `change` with a copy of the entry (an empty one if there is none), and keeps what it gives
// back; null takes the entry away.
void change_registered(const std::string& name,
                       const std::function<RegisteredOpPtr(const RegisteredOpPtr& known)>& change);
std::vector<std::string> registered_names();
// Grows with every change: what was worked out from rules before is out of date.
uint64_t registered_version();

// The name under which a node may be registered: the target of a custom call, the name of a
// composite, or that of an op that no family defines. Empty for others.
std::string_view registrable_name(const Node& node);
RegisteredOpPtr registered_op_of(const Node& node);  // null if there is none

// The attributes that a call gives to its kernel: entries of backend_config, and attributes of the
// node that are not part of the op.
AttrDict call_attributes(const Node& node);

// The rule that is registered for a node, checked against its shapes; an empty rule if none is.
// Throws a UserError that names the op if the rule does not fit.
OpShardingRule registered_rule(const Graph& graph, const Node& node);
PartialTransfer registered_partial(const Graph& graph, const Node& node);

// Throws unless every dimension of the node's operands and results is the product of its factors.
void check_rule_fits(const Graph& graph, const Node& node, const OpShardingRule& rule);

}  // namespace cleave
