#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/synthesize.h"
#include "cleave/discover/transfer.h"
#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

constexpr std::string_view kHeader = R"text(#include <gtest/gtest.h>

#include "cleave/run.h"

namespace cleave {
namespace {

struct Strategy {
  const char* call;
  std::vector<const char*> operands;  // placements along the axis "x"
  std::vector<const char*> results;
};

)text";

constexpr std::string_view kLocalHeader = R"text(// What each of two devices runs.
struct LocalStrategy {
  const char* call;
  std::vector<const char*> local;
  std::vector<const char*> operands;
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
    // Constants are split with what they meet.
    if (std::any_of(strategy.operands.begin(), strategy.operands.end(),
                    [](std::string_view p) { return p.starts_with("S("); }))
      propagate_shardings(graph, {});
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
)text";

// Strategies that no composition of rules claims: two devices that run their parts by hand.
constexpr std::string_view kLocalTest = R"text(
class @SUITE@_by_hand : public testing::TestWithParam<LocalStrategy> {};

TEST_P(@SUITE@_by_hand, EachDeviceAlone) {
  const LocalStrategy& strategy = GetParam();
  const Graph whole = parse_module(strategy.call);
  const Function& main = *whole.find_function("main");
  const MeshPtr mesh = std::make_shared<const Mesh>(Mesh({{"x", 2}}, {}, "mesh"));
  auto layout = [&](const char* placements, const Type& type) {
    return Layout{from_placements(parse_placements(placements), mesh, type.rank()), nullptr};
  };
  std::vector<Array> args;
  for (size_t i = 0; i < main.arg_types.size(); ++i)
    args.push_back(make_array(main.arg_types[i], "random:" + std::to_string(i)));
  std::vector<std::vector<Array>> shards(main.result_types.size());
  for (size_t device = 0; device < 2; ++device) {
    std::vector<Array> local;
    for (size_t i = 0; i < args.size(); ++i)
      local.push_back(shard_of(args[i], layout(strategy.operands[i], main.arg_types[i]),
                               static_cast<int64_t>(device)));
    const std::vector<Array> outputs =
        run_function(parse_module(strategy.local[device]), "main", local);
    for (size_t r = 0; r < outputs.size(); ++r) shards[r].push_back(outputs[r]);
  }
  const std::vector<Array> expected = run_function(whole, "main", args);
  for (size_t r = 0; r < expected.size(); ++r) {
    const Layout placed = layout(strategy.results[r], main.result_types[r]);
    for (size_t device = 0; device < 2; ++device)
      ASSERT_EQ(shards[r][device].shape(),
                placed.box(expected[r].shape(), static_cast<int64_t>(device)).size);
    const Comparison comparison =
        compare(assemble(shards[r], placed, expected[r].shape()), expected[r]);
    EXPECT_TRUE(comparison.same) << "result " << r << ": " << comparison.first;
  }
}

INSTANTIATE_TEST_SUITE_P(Found, @SUITE@_by_hand, testing::ValuesIn(kLocalStrategies));
)text";

constexpr std::string_view kEnd = R"text(
}  // namespace
}  // namespace cleave
)text";

std::string quoted(const std::vector<Placement>& placements) {
  std::string text;
  for (const Placement& p : placements)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", to_string(p));
  return "{" + text + "}";
}

// What the rules of the definition make of a row, if it is the same for 2 and 3 devices, was
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

// The placement of every result for a row; nothing if one has none.
std::optional<std::vector<Placement>> best_results(const SampleDecisions& sample,
                                                   const std::vector<Placement>& row) {
  std::vector<std::optional<Placement>> best(sample.result_shapes.size());
  for (const Decision& d : sample.decisions) {
    const Combination& c = d.combination;
    if (d.verdict.valid() && c.operands == row && !is_implied(sample, c) && !best[c.result])
      best[c.result] = c.placement;
  }
  std::vector<Placement> results;
  for (const auto& placement : best) {
    if (!placement) return std::nullopt;
    results.push_back(*placement);
  }
  return results;
}

// The modules that two devices run, each once.
class LocalCalls {
 public:
  explicit LocalCalls(const Operator& op) : op_(op) {}

  // "{kLocal0, kLocal1}"; nothing if an op's part on a device is more than the op on its shards.
  std::optional<std::string> names(const Sample& sample, const std::vector<Placement>& operands,
                                   const std::vector<Placement>& results) {
    if (op_.localize) return std::nullopt;
    std::vector<std::string> list;
    for (int device = 0; device < 2; ++device) {
      Sample local = sample;
      for (size_t i = 0; i < operands.size(); ++i)
        if (operands[i].is_shard()) {
          int64_t& size = local.operands[i].shape[operands[i].dim];
          size = chunk_of(size, 2, device).size;
        }
      if (!op_.shape_attr.empty() && results[0].is_shard()) {
        auto& shape = std::get<std::vector<int64_t>>(local.attrs.at(op_.shape_attr));
        shape[results[0].dim] = chunk_of(shape[results[0].dim], 2, device).size;
      }
      try {
        list.push_back(name_of(print_module(op_.define(local))));
      } catch (const UserError&) {
        return std::nullopt;
      }
    }
    return fmt::format("{{{}}}", fmt::join(list, ", "));
  }

  std::string text() const {
    std::string all;
    for (size_t i = 0; i < modules_.size(); ++i)
      all +=
          fmt::format("constexpr const char* kLocal{} = R\"mlir(\n{})mlir\";\n\n", i, modules_[i]);
    return all;
  }

 private:
  std::string name_of(const std::string& module) {
    auto it = std::find(modules_.begin(), modules_.end(), module);
    if (it == modules_.end()) it = modules_.insert(modules_.end(), module);
    return fmt::format("kLocal{}", it - modules_.begin());
  }

  const Operator& op_;
  std::vector<std::string> modules_;
};

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
  std::string calls, rows, local_rows, others;
  LocalCalls locals(op);
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
        continue;
      }
      const auto results = best_results(sample, row);
      const std::optional<std::string> names =
          results ? locals.names(sample.sample, row, *results) : std::nullopt;
      if (names) {
        local_rows +=
            fmt::format("    {{kCall{}, {}, {}, {}}},\n", s, *names, quoted(row), quoted(*results));
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
    text +=
        "// Found, of one result alone, or in a local form that a module cannot say:\n" + others;
  text += kHeader;
  if (!local_rows.empty()) text += kLocalHeader;
  text += calls + locals.text();
  text += fmt::format("const Strategy kStrategies[] = {{\n{}}};\n\n", rows);
  if (!local_rows.empty())
    text += fmt::format("const LocalStrategy kLocalStrategies[] = {{\n{}}};\n\n", local_rows);
  text += fmt::format("class {} : public testing::TestWithParam<Strategy> {{}};\n", suite);
  text += replaced(kTest, "@SUITE@", suite);
  if (!local_rows.empty()) text += replaced(kLocalTest, "@SUITE@", suite);
  return text + std::string(kEnd);
}

}  // namespace cleave
