#include "../support/op_coverage.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/transforms/derivative_support.h"
#include "derivative_cases.h"

namespace cleave {
namespace {

// What Derivatives.FirstOrder, SecondOrder and OverShards try: forward mode by central differences,
// reverse mode by forward mode.
TEST(DerivativeCases, Coverage) {
  std::set<std::string> forward, reverse;
  for (const DerivativeCase& sample : derivative_cases()) {
    const Graph graph = parse_module(sample.text, sample.name);
    graph.walk([&](NodeId id) {
      const Node& node = graph.node(id);
      if (node.def->opaque || node.def->has(kTerminator)) return;
      if (has_derivative(*node.def, DiffMode::Forward)) forward.insert(node.name());
      if (has_derivative(*node.def, DiffMode::Reverse)) reverse.insert(node.name());
    });
  }
  expect_coverage("jvp/differences", forward);
  expect_coverage("vjp/differences", reverse);
}

// Every op has derivatives in both modes, or there is a reason; and both are tried, here or against
// JAX.
TEST(DerivativeCases, OfEveryOpOrAReason) {
  const auto stated = [](const std::string& mode) {
    std::set<std::string> ops = stated_coverage(mode);
    ops.merge(stated_coverage(mode + "/differences"));
    return ops;
  };
  const std::set<std::string> jvps = stated("jvp"), vjps = stated("vjp");
  for (const auto& [name, def] : op_registry().ops()) {
    if (def.has(kTerminator)) continue;
    const bool forward = has_derivative(def, DiffMode::Forward);
    const bool reverse = has_derivative(def, DiffMode::Reverse);
    EXPECT_EQ(why_no_derivative(def).empty(), forward && reverse) << name;
    EXPECT_EQ(why_no_batch(def).empty(), has_batch(def)) << name;
    EXPECT_TRUE(!forward || jvps.contains(name)) << name << ": no test tries its jvp";
    EXPECT_TRUE(!reverse || vjps.contains(name)) << name << ": no test tries its vjp";
  }
}

}  // namespace
}  // namespace cleave
