#include "cleave/solve/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cleave/core/error.h"
#include "tests/solve/random_problem.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_path.h"

namespace cleave::solver {
namespace {

using ::testing::HasSubstr;

const char* const kExample = R"({"problem": {"name": "two",
  "nodes": {"intervals": [[0, 10], [5, 15]], "costs": [[5, 1], [0, 2]], "usages": [[4, 8], [6, 3]]},
  "edges": {"nodes": [[0, 1]], "costs": [[0, 7, 7, 0]]}, "usage_limit": 12}})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  return cleave::error_of([&] { parse_problem(text, "file"); });
}

TEST(Problem, ReadsTheFormat) {
  const Problem p = parse_problem(kExample, "file");
  EXPECT_EQ(p.name, "two");
  ASSERT_EQ(p.nodes.size(), 2u);
  EXPECT_EQ(p.nodes[1].live.lo, 5);
  EXPECT_EQ(p.nodes[1].costs, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(p.edges[0].costs, (std::vector<std::int64_t>{0, 7, 7, 0}));
  EXPECT_EQ(p.usage_limit, 12);
}

TEST(Problem, EvaluatesTheExample) {
  const Problem p = parse_problem(kExample, "file");
  const Evaluation both_small = evaluate(p, {1, 1});
  EXPECT_TRUE(both_small.cost == 3);
  EXPECT_TRUE(both_small.peak == 11);
  EXPECT_TRUE(both_small.feasible());
  const Evaluation too_much = evaluate(p, {1, 0});
  EXPECT_TRUE(too_much.peak == 14);
  EXPECT_EQ(too_much.peak_time, 5);
  EXPECT_FALSE(too_much.feasible());
}

// At time 10 the first node is gone before the second comes.
TEST(Problem, IntervalsAreHalfOpen) {
  Problem p;
  p.nodes.push_back({{0, 10}, {0}, {8}});
  p.nodes.push_back({{10, 20}, {0}, {8}});
  p.nodes.push_back({{3, 3}, {0}, {100}});
  p.usage_limit = 8;
  EXPECT_TRUE(evaluate(p, {0, 0, 0}).peak == 8);
}

TEST(Problem, RoundTripsThroughTextAndGzip) {
  for (int seed = 0; seed < 20; ++seed) {
    const Problem p = test::random_problem(seed, {});
    for (const char* name : {"round_trip.json", "round_trip.json.gz"}) {
      const std::string path = temp_path(name);
      write_problem(p, path);
      EXPECT_EQ(format_problem(read_problem(path)), format_problem(p));
      std::filesystem::remove(path);
    }
  }
}

TEST(Problem, TakesFloatsThatAreWholeAndLargeOnesAsForbidden) {
  const Problem p = parse_problem(replaced(kExample, "[[5, 1]", "[[5.0, 1e18]"), "file");
  EXPECT_EQ(p.nodes[0].costs, (std::vector<std::int64_t>{5, kForbidden}));
}

TEST(Problem, UnknownFieldsAreSkippedAndTheLimitMayBeMissing) {
  const Problem p =
      parse_problem(replaced(replaced(kExample, "\"usage_limit\": 12", "\"usage_limit\": null"),
                             "\"name\"", "\"more\": {\"x\": [1, \"]\"]}, \"name\""),
                    "file");
  EXPECT_FALSE(p.usage_limit.has_value());
}

TEST(ProblemErrors, NameWhatIsWrong) {
  EXPECT_THAT(error_of(""), HasSubstr("is empty"));
  EXPECT_THAT(error_of("  \n"), HasSubstr("is empty"));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("cut short"));
  EXPECT_THAT(error_of("1 }"), HasSubstr("not a problem in IOPDDL JSON"));
  EXPECT_THAT(error_of("{}"), HasSubstr("\"problem\" is missing"));
  EXPECT_THAT(error_of(std::string(kExample) + " x"), HasSubstr("text after its end"));
  EXPECT_THAT(error_of(replaced(kExample, "[[4, 8]", "[[4]")), HasSubstr("2 costs but 1 usages"));
  EXPECT_THAT(error_of(replaced(kExample, "[[4, 8], ", "[")), HasSubstr("one per node"));
  EXPECT_THAT(error_of(replaced(kExample, "[[0, 7, 7, 0]]", "[[0, 7, 7]]")),
              HasSubstr("2 x 2 = 4"));
  EXPECT_THAT(error_of(replaced(kExample, "[[0, 1]]", "[[0, 2]]")),
              HasSubstr("nodes go from 0 to 1"));
  EXPECT_THAT(error_of(replaced(kExample, "[[0, 1]]", "[[0, -1]]")),
              HasSubstr("nodes go from 0 to 1"));
  EXPECT_THAT(error_of(replaced(kExample, "[[0, 1]]", "[[0, 1, 1]]")), HasSubstr("only pairs"));
  EXPECT_THAT(error_of(replaced(kExample, "[[5, 1]", "[[5, -1]")),
              HasSubstr("must not be negative"));
  EXPECT_THAT(error_of(replaced(kExample, "[[4, 8]", "[[4, -8]")),
              HasSubstr("must not be negative"));
  EXPECT_THAT(error_of(replaced(kExample, "[[5, 1]", "[[5, 1.5]")), HasSubstr("whole numbers"));
  EXPECT_THAT(error_of(replaced(kExample, "[[0, 10]", "[[10, 0]")), HasSubstr("0 <= lo <= hi"));
  EXPECT_THAT(error_of(replaced(kExample, "[[0, 10]", "[[10]")), HasSubstr("[lo, hi] is needed"));
  EXPECT_THAT(error_of(replaced(kExample, "\"usage_limit\": 12", "\"usage_limit\": -1")),
              HasSubstr("usage limit is -1"));
  EXPECT_THAT(error_of(replaced(kExample, "\"usages\"", "\"usage\"")),
              HasSubstr("nodes.usages is missing"));
}

TEST(ProblemErrors, EveryTruncationIsRefused) {
  const std::string text = kExample;
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_NE(error_of(text.substr(0, length)), "no error") << length;
  }
}

TEST(ProblemErrors, TruncatedGzipIsRefused) {
  const std::string path = temp_path("truncated.json.gz");
  write_problem(test::random_problem(3, {}), path);
  const auto size = std::filesystem::file_size(path);
  for (auto part : {size / 4, size / 2, size - 1}) {
    std::filesystem::resize_file(path, part);
    EXPECT_THROW(read_problem(path), UserError) << part;
    write_problem(test::random_problem(3, {}), path);
  }
  std::filesystem::remove(path);
  EXPECT_THROW(read_problem(path), UserError);
}

TEST(ProblemErrors, EvaluateChecksTheChoice) {
  const Problem p = parse_problem(kExample, "file");
  EXPECT_THROW(evaluate(p, {0}), UserError);
  EXPECT_THROW(evaluate(p, {0, 2}), UserError);
  EXPECT_THROW(evaluate(p, {-1, 0}), UserError);
}

}  // namespace
}  // namespace cleave::solver
