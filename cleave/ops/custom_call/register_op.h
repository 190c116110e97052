#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/registered_op.h"

namespace cleave {

// A rule in the short notation (core/sharding_rule_text.h), or a function of the call. In the
// notation "..." stands for any number of leading dimensions, the same in all tensors that have it:
//
//   "m k, k n -> m n"      "... i, ... i -> ... i {i: need_replication}"
class RuleSource {
 public:
  RuleSource() = default;
  RuleSource(const char* notation) : RuleSource(std::string(notation)) {}
  RuleSource(std::string notation);
  template <std::invocable<const Graph&, const Node&> F>
  RuleSource(F function) : function_(std::move(function)) {}

  const RuleOfCall& function() const { return function_; }

 private:
  RuleOfCall function_;
};

// Which operands may be partial, and what the results then are: rows such as "P(sum), R -> P(sum)",
// the words below, or a function of the call.
//
//   linear     all operands at once: P(sum), P(sum) -> P(sum), and the same for avg
//   bilinear   one operand at a time: P(sum), R -> P(sum) and R, P(sum) -> P(sum), and for avg
//   monotone   of one operand, element by element: P(max) -> P(max) and P(min) -> P(min)
class PartialSource {
 public:
  PartialSource() = default;
  PartialSource(std::initializer_list<std::string> rows)
      : PartialSource(std::vector<std::string>(rows)) {}
  PartialSource(const std::vector<std::string>& rows);
  template <std::invocable<const Graph&, const Node&> F>
  PartialSource(F function) : function_(std::move(function)) {}

  const PartialOfCall& function() const { return function_; }

 private:
  PartialOfCall function_;
};

// Makes the rule of an op known by name: a custom call by its target, a composite by its name, an
// op that no family defines by its own. Propagation, the planner and the partitioner use it from
// then on. The rules of built-in targets cannot be changed, and a name that has a rule already is
// refused unless `replace` is set. Programs that were compiled before stay as they are.
//
//   register_rule("my_outer", "b i, b j -> b i j", {"bilinear"});
void register_rule(const std::string& name, RuleSource rule, PartialSource partial = {},
                   bool replace = false);

// An op with a kernel. What is left out is not known: without a rule every device computes all of
// it, without types a call says them itself or the kernel is tried on zeros.
struct OpRegistration {
  KernelOfCall kernel;  // on one device's arrays
  TypesOfCall types = {};
  RuleSource rule = {};
  PartialSource partial = {};
  CostOfCall cost = {};  // empty: the bytes of operands and results
  bool replace = false;
};
void register_op(const std::string& name, OpRegistration op);

// Throws UserError if there is nothing to take away. The first leaves the kernel.
void unregister_rule(const std::string& name);
void unregister_op(const std::string& name);

// The result types of a call of a registered op: what its `types` say, or what the kernel gives on
// zeros. Throws a UserError if the name is not registered.
std::vector<Type> registered_types(const std::string& name, std::span<const Type> operands,
                                   const AttrDict& attrs);

// The kernel of a custom call that is registered, on one device's arrays; the results are checked
// against the types of the node.
std::vector<Array> eval_registered(const Graph& graph, const Node& node, const RegisteredOp& op,
                                   std::span<const Array> operands);

// For messages: "; registered are: a, b", or nothing.
std::string near_registered(std::string_view name);

}  // namespace cleave
