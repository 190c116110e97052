#include "cleave/ops/elementwise/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_quantized_samples(OpRegistry& r) {
  for (const char* op : {"stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"})
    set_no_sample(r, op, "its numbers are quantized, and inputs are not made for those");
}

}  // namespace cleave
