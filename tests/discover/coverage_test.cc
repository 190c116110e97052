#include "../support/op_coverage.h"

#include "cleave/discover/certify.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

// What Certify.NoClaimOfTheRegistryIsWrong tries.
TEST(Coverage, RulesPartialsAndLocalForms) {
  std::set<std::string> rule, partial, local;
  for (const Graph& sample : registry_samples())
    sample.walk(sample.functions.front().body, [&](NodeId id) {
      const Node& node = sample.node(id);
      if (node.parent != sample.functions.front().body) return;
      if (node.def->rule) rule.insert(node.name());
      if (node.def->partial) partial.insert(node.name());
      if (node.def->localize || node.def->needs) local.insert(node.name());
    });
  expect_coverage("rule", rule);
  expect_coverage("partial", partial);
  expect_coverage("local", local);
}

}  // namespace
}  // namespace cleave
