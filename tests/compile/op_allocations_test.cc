// Every op of the registry, compiled alone: gives what it gives op by op, and a run that is not the
// first asks for no memory, but for the ops that are named here.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "cleave/compile/executable.h"
#include "cleave/discover/certify.h"
#include "cleave/graph/op_def.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "tests/compile/count_allocations.h"

namespace cleave {
namespace {

// Ops that may, and why.
const std::map<std::string, std::string>& allowed() {
  static const std::map<std::string, std::string> ops = {
      {"chlo.ragged_dot", "values say how many rows each product has"},
      {"stablehlo.dynamic_conv", "values say how much is padded"},
      {"stablehlo.dynamic_pad", "values say how much is padded"},
      {"stablehlo.real_dynamic_slice", "values say what is taken"},
      {"stablehlo.reduce_precision", "its kernel takes arrays"},
  };
  return ops;
}

std::string op_of(const Graph& sample) {
  std::string name;
  sample.walk(sample.functions.front().body, [&](NodeId id) {
    const Node& node = sample.node(id);
    if (!node.def->opaque && node.parent == sample.functions.front().body &&
        !node.def->has(kTerminator))
      name = node.name();
  });
  return name;
}

std::vector<Array> arguments_of(const Graph& sample) {
  std::vector<Array> args;
  for (const Type& type : sample.functions.front().arg_types)
    args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)).copy());
  return args;
}

TEST(Allocations, OfEveryOp) {
  std::set<std::string> seen, allocating;
  for (const Graph& sample : registry_samples()) {
    const std::string op = op_of(sample);
    SCOPED_TRACE(op);
    seen.insert(op);
    Executable executable(sample, sample.functions.front().name, {.threads = 1});
    ASSERT_TRUE(executable.is_compiled());
    std::vector<std::vector<Array>> args = {arguments_of(sample)}, results;
    for (int run = 0; run < 2; ++run) executable.run_shards_into(args, results);
    const int64_t before = allocation_count();
    executable.run_shards_into(args, results);
    const int64_t count = allocation_count() - before;
    const std::vector<Array> expected =
        run_function(sample, sample.functions.front().name, args[0]);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Comparison comparison = compare(results[0][i], expected[i]);
      EXPECT_TRUE(comparison.same) << "result " << i << ": " << comparison.first;
    }
    if (count == 0) continue;
    allocating.insert(op);
    EXPECT_TRUE(allowed().count(op))
        << count << " allocations, " << executable.stats().fallbacks << " kernels";
  }
  for (const auto& [op, why] : allowed())
    EXPECT_TRUE(allocating.count(op)) << op << " does without: take it off the list";
  EXPECT_GT(seen.size(), 100u);
}

}  // namespace
}  // namespace cleave
