#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/transfer.h"
#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

constexpr std::string_view kHeader = R"text(#include <gtest/gtest.h>

#include "cleave/core/placement.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

struct Strategy {
  const char* call;
  std::vector<const char*> operands;  // placements along the axis "x"
  std::vector<const char*> results;
};

)text";

constexpr std::string_view kTest = R"text(
TEST_P(@SUITE@, RunsWithoutCommunication) {
  const Strategy& strategy = GetParam();
  for (int64_t w : {2, 3}) {
    Graph graph = parse_module(strategy.call);
    const MeshPtr mesh = std::make_shared<const Mesh>(Mesh({{"x", w}}, {}, "mesh"));
    graph.meshes = {mesh};
    Function& main = *graph.find_function("main");
    // Operands as they are, pending ones that several ops use included.
    const std::vector<NodeId> nodes = graph.region(main.body).nodes;
    for (NodeId id : nodes) graph.node(id).attrs.set("cleave.planned", UnitAttr{});
    auto sharding = [&](const char* placements, const Type& type) {
      return ShardingAttr{from_placements(parse_placements(placements), mesh, type.rank())};
    };
    std::vector<Array> args;
    for (size_t i = 0; i < main.arg_types.size(); ++i) {
      main.arg_attrs[i].set("sdy.sharding", sharding(strategy.operands[i], main.arg_types[i]));
      args.push_back(make_array(main.arg_types[i], "random:" + std::to_string(i)));
    }
    for (size_t r = 0; r < main.result_types.size(); ++r)
      main.result_attrs[r].set("sdy.sharding", sharding(strategy.results[r], main.result_types[r]));
    PartitionOptions options;
    options.mesh = mesh;
    const Program program = partition(graph, options);
    const RegionId body = program.entry_function().body;

    program.graph.walk(body, [&](NodeId id) {
      EXPECT_FALSE(is_transfer(program.graph.node(id))) << print_node(program.graph, id);
    });

    const Node& end = program.graph.node(program.graph.terminator(body));
    for (size_t r = 0; r < end.operands.size(); ++r)
      EXPECT_EQ(to_string(to_placements(program.layout(end.operands[r]).spec)),
                strategy.results[r]);

    const std::vector<Array> expected = run_function(graph, "main", args);
    const std::vector<Array> actual = Executor(program).run(args);
    for (size_t r = 0; r < expected.size(); ++r) {
      const Comparison comparison = compare(actual[r], expected[r]);
      EXPECT_TRUE(comparison.same) << "result " << r << ": " << comparison.first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Found, @SUITE@, testing::ValuesIn(kStrategies));

}  // namespace
}  // namespace cleave
)text";

std::string quoted(const std::vector<Placement>& placements) {
  std::string text;
  for (const Placement& p : placements)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", to_string(p));
  return "{" + text + "}";
}

// What the rules of the definition make of a row, where it is the same for 2 and 3 devices, was
// found to be valid, and the partitioner gets there alone.
std::optional<std::vector<Placement>> claimed_results(const Graph& call,
                                                      const SampleDecisions& sample,
                                                      const std::vector<Placement>& row) {
  const auto results = transfer_through(call, row, 2);
  if (!results || results != transfer_through(call, row, 3)) return std::nullopt;
  for (int w : {2, 3})
    if (!runs_alone(call, row, *results, w)) return std::nullopt;
  for (size_t r = 0; r < results->size(); ++r) {
    const bool valid =
        std::any_of(sample.decisions.begin(), sample.decisions.end(), [&](const Decision& d) {
          return d.verdict.valid() && d.combination.result == r && d.combination.operands == row &&
                 d.combination.placement == (*results)[r];
        });
    if (!valid) return std::nullopt;
  }
  return results;
}

std::string replaced(std::string_view text, std::string_view from, const std::string& to) {
  std::string result;
  for (size_t at = 0;;) {
    const size_t next = text.find(from, at);
    result += text.substr(at, next - at);
    if (next == std::string_view::npos) return result;
    result += to;
    at = next + from.size();
  }
}

}  // namespace

std::string emit_cleave_tests(const Operator& op, const Discovery& discovery) {
  if (!op.define)
    throw_user("--emit tests: {} is a black box without a definition that Cleave could run",
               op.name);
  std::string calls, rows, others;
  for (size_t s = 0; s < discovery.samples.size(); ++s) {
    const SampleDecisions& sample = discovery.samples[s];
    const Graph call = op.define(sample.sample);
    calls += fmt::format("// {}({})\nconstexpr const char* kCall{} = R\"mlir(\n{})mlir\";\n\n",
                         op.name, to_string(sample.sample), s, print_module(call));
    std::vector<std::vector<Placement>> seen;
    for (const Decision& d : sample.decisions) {
      const std::vector<Placement>& row = d.combination.operands;
      if (!d.verdict.valid() || std::find(seen.begin(), seen.end(), row) != seen.end()) continue;
      seen.push_back(row);
      if (const auto results = claimed_results(call, sample, row)) {
        rows += fmt::format("    {{kCall{}, {}, {}}},\n", s, quoted(row), quoted(*results));
      } else {
        others +=
            fmt::format("//   {}  of ({})\n", to_string(d.combination), to_string(sample.sample));
      }
    }
  }
  const std::string suite = identifier(discovery.op) + "_strategies";
  std::string text = fmt::format("// {}: the strategies that were found, over {} combinations.\n",
                                 op.name, discovery.combinations);
  if (!others.empty())
    text += "// Found, but no rule claims it, or the partitioner communicates:\n" + others;
  text += kHeader;
  text += calls;
  text += fmt::format("const Strategy kStrategies[] = {{\n{}}};\n\n", rows);
  text += fmt::format("class {} : public testing::TestWithParam<Strategy> {{}};\n", suite);
  return text + replaced(kTest, "@SUITE@", suite);
}

}  // namespace cleave
