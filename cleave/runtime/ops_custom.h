#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "cleave/graph/attribute.h"
#include "cleave/graph/type.h"
#include "cleave/ops/custom_call/register_op.h"
#include "cleave/runtime/tensor.h"

namespace cleave {

// Calls an op that was made known with `register_op`; its rule says how the results lie.
//
//   register_op("gap", {.kernel = gap, .rule = "b i -> b {i: need_replication}"});
//   Tensor y = custom_call_one("gap", {x});      // x split over its rows: no communication
//
// `results` are the result types if the op has no `types` and its kernel should not be tried on
// zeros. Throws a UserError if the name is not registered or the operands do not fit.
std::vector<Tensor> custom_call(const std::string& name, std::span<const Tensor> operands,
                                const AttrDict& attrs = {}, std::vector<Type> results = {});
inline std::vector<Tensor> custom_call(const std::string& name,
                                       std::initializer_list<Tensor> operands,
                                       const AttrDict& attrs = {}) {
  return custom_call(name, std::span<const Tensor>(operands.begin(), operands.size()), attrs);
}
// The same for an op with one result.
Tensor custom_call_one(const std::string& name, std::initializer_list<Tensor> operands,
                       const AttrDict& attrs = {});

}  // namespace cleave
