#pragma once

#include <span>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

// What a kernel call may need beyond its operands. One per device; the runtime implements the parts
// that reach beyond the device.
class EvalContext {
 public:
  explicit EvalContext(const Graph& graph) : graph_(graph) {}
  virtual ~EvalContext() = default;

  const Graph& graph() const { return graph_; }
  // Runs a region on arguments and returns what its terminator returns; values from outside the
  // region are visible.
  virtual std::vector<Array> run_region(RegionId region, std::span<const Array> args) = 0;
  virtual std::vector<Array> call(std::string_view function, std::span<const Array> args) = 0;

 private:
  const Graph& graph_;
};

}  // namespace cleave
