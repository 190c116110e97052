#pragma once

namespace cleave {

// Work of an op on the shapes of its node: what a machine profile turns into seconds.
struct OpCost {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
};

}  // namespace cleave
