// Ops that need a cut dimension whole run along another one, if that is worth an all_to_all.
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

// `size` columns of 8, cut into 4 along the rows, which `op` needs whole.
std::string module_of(const std::string& size, const std::string& op) {
  const std::string type = "tensor<8x" + size + "xf32>";
  const std::string cut = " {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}";
  return "sdy.mesh @mesh = <[\"x\"=4]>\nfunc.func @main(%a: " + type + cut + ") -> (" + type +
         ") {\n" + op + "  return %r : " + type + "\n}";
}

std::string sort_of(const std::string& size, const std::string& from, const std::string& to) {
  const std::string type = "tensor<8x" + size + "xf32>";
  return "  " + to + " = \"stablehlo.sort\"(" + from +
         ") <{dimension = 0 : i64}> ({\n"
         "  ^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
         "    %c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
         "    stablehlo.return %c : tensor<i1>\n  }) : (" +
         type + ") -> " + type + "\n";
}

// Links whose time is a matter of bytes, or of starting at all.
MachineProfile profile_of(double latency_us) {
  MachineProfile profile = default_profile();
  profile.executor.launch_us = 0;
  AxisLinks links;
  links.fill({latency_us, 1});
  profile.axis_links["x"] = links;
  return profile;
}

struct Ran {
  CommLog log{CommLog::Unheard{}};
  ShardingSpec result;
  explicit Ran(const std::string& text, double latency_us = 0.001) {
    const Graph graph = parse_module(text);
    const MachineProfile profile = profile_of(latency_us);
    const Executor executor(
        partition(graph, {.entry = "main", .profile = &profile, .keep_results = true}));
    const Program& program = executor.program();
    const Function& main = program.entry_function();
    const std::vector<Array> args = {make_array(graph.functions[0].arg_types[0], "random:1")};
    const Comparison same =
        compare(executor.run(args, {.log = &log})[0], run_function(graph, "main", args)[0]);
    EXPECT_TRUE(same.same) << same.first;
    result =
        program.layout(program.graph.node(program.graph.terminator(main.body)).operands[0]).spec;
  }
};

TEST(MovedDims, LargeColumnsAreSortedInParts) {
  const Ran ran(module_of("64", sort_of("64", "%a", "%r")));
  EXPECT_EQ(ran.log.count("all_to_all"), 1) << to_string(ran.log);
  EXPECT_EQ(ran.log.count(), 1);
  EXPECT_EQ(to_string(ran.result), "[{}, {\"x\"}]");
}

TEST(MovedDims, SmallOnesAreGathered) {
  const Ran ran(module_of("64", sort_of("64", "%a", "%r")), 1000);
  EXPECT_EQ(ran.log.count("all_gather"), 1) << to_string(ran.log);
  EXPECT_EQ(ran.log.count(), 1);
}

TEST(MovedDims, AnotherDimensionThatDoesNotDivideIsNoHelp) {
  const Ran ran(module_of("63", sort_of("63", "%a", "%r")));
  EXPECT_EQ(ran.log.count("all_gather"), 1) << to_string(ran.log);
}

TEST(MovedDims, ChainsStayThere) {
  const std::string type = "tensor<8x64xf32>";
  const Ran ran(module_of("64", sort_of("64", "%a", "%s") + "  %t = stablehlo.add %s, %a : " +
                                    type + "\n" + sort_of("64", "%t", "%r")));
  EXPECT_EQ(ran.log.count("all_to_all"), 1) << to_string(ran.log);
  EXPECT_EQ(ran.log.count(), 1);
}

}  // namespace
}  // namespace cleave
