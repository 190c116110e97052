#pragma once

#include <cstdint>
#include <string_view>

namespace cleave {

// Which way axes may flow through an op along a factor: from operands to results, back, both, or
// not at all. A set of two bits, so that | and & are union and intersection.
//   Forward | Backward == Both;  Forward & Backward == None
enum class Direction : uint8_t { None = 0, Forward = 1, Backward = 2, Both = 3 };

constexpr Direction operator|(Direction a, Direction b) {
  return static_cast<Direction>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr Direction operator&(Direction a, Direction b) {
  return static_cast<Direction>(static_cast<uint8_t>(a) & static_cast<uint8_t>(b));
}

constexpr std::string_view name(Direction direction) {
  constexpr std::string_view kNames[] = {"NONE", "FORWARD", "BACKWARD", "BOTH"};
  return kNames[static_cast<uint8_t>(direction)];
}

}  // namespace cleave
