// Commands that do not answer, answer nonsense or die: each ends with one line that names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/discover/command_operator.h"
#include "cleave/discover/discover.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The identity in the shell's own words: operands and results are written alike.
constexpr const char* kIdentity =
    R"(sed -u 's/^{"attrs":{[^}]*},"operands":\(.*\)}$/{"results":\1}/')";

std::string error_of_command(const std::string& command, double timeout = 20) {
  const Operator op =
      operator_of_command("box", command, {{{{DType::F64, {6, 3}}}, {}}}, {timeout});
  DiscoverOptions options;
  options.shrink_witnesses = false;
  const std::string error = error_of([&] { discover(op, options); });
  EXPECT_THAT(error, Not(HasSubstr("\n")));
  return error;
}

TEST(CommandLimits, OneThatNeverAnswers) {
  for (const char* silent : {"sleep 1000", "cat > /dev/null", "trap '' TERM; sleep 1000 & wait"})
    EXPECT_THAT(
        error_of_command(silent, 0.2),
        AllOf(HasSubstr(silent), HasSubstr("did not answer within 0.2 s"), HasSubstr("--timeout")));
}

// Answers for the whole operands, and then hangs on a shard: that is no rejection.
TEST(CommandLimits, OneThatStopsInTheMiddle) {
  const std::string command = std::string(kIdentity) +
                              R"( | while read -r line; do case "$line" in *'[6,3]'*) echo )" +
                              R"("$line";; *) sleep 1000;; esac; done)";
  EXPECT_THAT(error_of_command(command, 1), HasSubstr("did not answer within 1 s"));
}

TEST(CommandLimits, NonsenseIsNoRejection) {
  EXPECT_THAT(error_of_command("sed -u 's/.*/[]/'"), HasSubstr("which is no line such as"));
  EXPECT_THAT(error_of_command("sed -u 's/.*/{}/'"), HasSubstr("which is no line such as"));
  EXPECT_THAT(error_of_command("sed -u 's/.*/hello\\nthere/'"), HasSubstr("and more than that"));
  for (const char* shape : {"[-1]", "[4611686018427387904,4]", "[1099511627776]", "[[2]]", "\"x\""})
    EXPECT_THAT(
        error_of_command(std::string(R"(sed -u 's/.*/{"results": [{"dtype": "f64", "shape": )") +
                         shape + R"(, "data": "00"}]}/')"),
        HasSubstr("which is no line such as"))
        << shape;
  // Right for the whole, nonsense on shards.
  const std::string later = std::string(kIdentity) + R"( | sed -u '/\[6,3\]/!s/.*/oops/')";
  EXPECT_THAT(error_of_command(later), HasSubstr("answered 'oops'"));
}

TEST(CommandLimits, OneThatDiesAgainAndAgain) {
  const std::string command = std::string(kIdentity) +
                              R"( | while read -r line; do case "$line" in *'[6,3]'*) echo )" +
                              R"("$line";; *) kill -9 0;; esac; done)";
  const Operator op = operator_of_command("box", command, {{{{DType::F64, {6, 3}}}, {}}});
  // A few deaths are rejections of those operands.
  for (const Decision& d : decide(op, op.samples[0], {})) {
    if (to_string(d.combination) == "S(0) -> S(0)") {
      EXPECT_EQ(d.verdict.kind, VerdictKind::Rejected);
      EXPECT_THAT(d.verdict.reason, HasSubstr("instead of an answer"));
    }
  }
}

// Every start has a number of its own: its process id.
TEST(CommandLimits, OneThatAnswersOtherwiseAfterAStart) {
  const std::string command =
      R"(exec sh -c 'while read -r line; do printf "{\"results\":[{\"dtype\":\"i64\",)"
      R"(\"shape\":[],\"data\":\"%016x\"}]}\n" $$; done')";
  EXPECT_THAT(error_of_command(command), HasSubstr("not deterministic"));
}

}  // namespace
}  // namespace cleave
