#pragma once

#include <chrono>

namespace cleave {

// Seconds of a clock that never goes back; only differences have a meaning.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace cleave
