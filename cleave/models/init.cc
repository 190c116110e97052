#include "cleave/models/init.h"

#include <cmath>

namespace cleave::models {

Tensor Init::linear(int64_t in, int64_t out) {
  return normal({in, out}, 1 / std::sqrt(static_cast<double>(in)));
}

Tensor Init::kernel(int64_t size, int64_t in, int64_t out) {
  const auto inputs = static_cast<double>(size * size * in);
  return normal({size, size, in, out}, std::sqrt(2 / inputs));
}

}  // namespace cleave::models
