#include "../support/op_coverage.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/transforms/derivative_support.h"
#include "derivative_cases.h"

namespace cleave {
namespace {

// What Derivatives.FirstOrder and SecondOrder try: forward mode by central differences, reverse
// mode by forward mode.
TEST(DerivativeCases, Coverage) {
  std::set<std::string> forward, reverse;
  for (const DerivativeCase& sample : derivative_cases()) {
    const Graph graph = parse_module(sample.text, sample.name);
    graph.walk([&](NodeId id) {
      const Node& node = graph.node(id);
      if (!node.def || node.def->has(kTerminator)) return;
      if (has_derivative(*node.def, DiffMode::Forward)) forward.insert(node.name);
      if (has_derivative(*node.def, DiffMode::Reverse)) reverse.insert(node.name);
    });
  }
  expect_coverage("jvp/differences", forward);
  expect_coverage("vjp/differences", reverse);
}

}  // namespace
}  // namespace cleave
