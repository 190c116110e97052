#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

// A check.* op that does not hold. The message names the first element that differs.
class CheckError : public UserError {
 public:
  using UserError::UserError;
};

// Whether a custom call's target is one of the checks: "check.expect_eq", "check.expect_close"
// (three units in the last place), "check.expect_almost_eq" (a tolerance of 1e-3).
bool is_check_call(std::string_view target);
// Does the check; throws CheckError if it does not hold. There are no results.
std::vector<Array> eval_check_call(std::string_view target, std::span<const Array> args);

}  // namespace cleave
