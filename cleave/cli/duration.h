#pragma once

#include <fmt/core.h>

#include <string>

namespace cleave::cli {

// 12.30 us, 4.567 ms, 8.901 s
inline std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

}  // namespace cleave::cli
