#pragma once

#include <string>
#include <utility>

#include "cleave/core/error.h"

namespace cleave {

// What `action` throws says; "no error" where it throws nothing.
//   error_of([&] { parse_mesh("x=0"); })
template <typename Error = UserError, typename Action>
std::string error_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace cleave
