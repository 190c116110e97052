#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace cleave {

// What the caller did wrong. The message names the op, shapes and axes, and the way out.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Cleave has a bug. Nothing that a caller passes may lead here.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// throw_user("stablehlo.add: operand shapes {} and {} differ", a, b);
template <typename... Args>
[[noreturn]] void throw_user(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void throw_internal(fmt::format_string<Args...> format, Args&&... args) {
  throw InternalError(fmt::format(format, std::forward<Args>(args)...));
}

// Throws an InternalError unless `condition` holds.
inline void internal_check(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}

}  // namespace cleave
