#pragma once

#include <string>
#include <vector>

#include "cleave/discover/discover.h"
#include "cleave/ops/custom_call/register_op.h"

namespace cleave {

// The attributes of a call as the values of a sweep; those of other kinds are left out.
AttrMap attr_map_of(const AttrDict& attrs);
AttrDict attr_dict_of(const AttrMap& attrs);

// What a report says about calls, as functions of the call: the conditions of its rules are asked
// of the attributes and shapes. If conditions are about single calls, so are the functions: a call
// that was not tried is left whole.
RuleSource rule_of_discovery(const Discovery& found);
PartialSource partial_of_discovery(const Discovery& found);

// The operator as a registered op, with its rule: `op.run` is the kernel, and must outlive the
// registration.
void register_discovered(const std::string& name, const Operator& op, const Discovery& found,
                         bool replace = false);

// Runs every claim of a rule and its partial transfer on calls of the operator. Throws a UserError
// with the smallest witness if one of them is wrong.
void verify_rule(const Operator& op, const RuleSource& rule, const PartialSource& partial,
                 const DiscoverOptions& options);

}  // namespace cleave
