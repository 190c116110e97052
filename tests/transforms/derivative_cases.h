#pragma once

#include <string>
#include <vector>

namespace cleave {

// A function @main of float64 tensors, and the range from which its arguments are drawn, away from
// kinks.
struct DerivativeCase {
  std::string name;
  std::string text;
  double low = 0.3, high = 0.9;
};
inline void PrintTo(const DerivativeCase& c, std::ostream* out) { *out << c.name; }

std::vector<DerivativeCase> derivative_cases();
// Of ops that JAX does not print: implicit broadcasts, ops with sizes as operands, Shardy's own.
void add_rare_cases(std::vector<DerivativeCase>& cases);

}  // namespace cleave
