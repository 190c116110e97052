#pragma once

#include <memory>

#include "cleave/compile/device_code.h"
#include "cleave/compile/region_loop.h"
#include "cleave/kernels/window.h"

namespace cleave {

// A stablehlo.select_and_scatter: in every window of `operand` the element that `select` prefers
// gets the window's element of `source`, by `combine`; the result begins as `init`. All views are
// packed; source, init and result have the dtype of `combine`.
struct SelectScatter {
  CodeView operand, source, init, result;
  Window window;
  RegionLoop select;
  Loop combine = nullptr;
  CodeView work;  // of select_scatter_work() bytes
};
size_t select_scatter_work(const CodeView& operand, const CodeView& source,
                           const RegionLoop& select);
std::unique_ptr<CodeStep> make_select_scatter_step(SelectScatter plan);

}  // namespace cleave
