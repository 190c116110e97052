// Operators that Cleave does not know: a command, a module of StableHLO; and witnesses that are run
// again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cleave/core/error.h"
#include "cleave/discover/command_operator.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/library.h"
#include "cleave/discover/module_operator.h"
#include "cleave/discover/replay.h"
#include "cleave/graph/text/text.h"
#include "tests/support/error_of.h"
#include "tests/support/rules_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;

DiscoverOptions quick() {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  return options;
}

Sample one_operand(Shape shape) { return {{{DType::F64, std::move(shape)}}, {}}; }

// The identity in the shell's own words: operands and results are written alike.
constexpr const char* kIdentity =
    R"(sed -u 's/^{"attrs":{[^}]*},"operands":\(.*\)}$/{"results":\1}/')";

TEST(Command, TheIdentity) {
  const Operator op = operator_of_command("identity", kIdentity, {one_operand({5, 3})});
  EXPECT_EQ(rules_of(discover(op, quick())),
            (std::set<std::string>{"R -> R", "S(d) -> S(d)", "P(sum) -> P(sum)", "P(avg) -> P(avg)",
                                   "P(max) -> P(max)", "P(min) -> P(min)", "P(prod) -> P(prod)"}));
}

TEST(Command, WhatItDoesNotAcceptIsRejected) {
  // Takes the shape [4, 3] alone.
  const std::string command =
      std::string(kIdentity) + R"( | sed -u '/\[4,3\]/!s/.*/{"error": "four rows, please"}/')";
  const Operator op = operator_of_command("picky", command, {one_operand({4, 3})});
  for (const Decision& d : decide(op, op.samples[0], {})) {
    if (to_string(d.combination) == "R -> R") {
      EXPECT_TRUE(d.verdict.valid());
    }
    if (to_string(d.combination) == "S(0) -> S(0)") {
      EXPECT_EQ(d.verdict.kind, VerdictKind::Rejected);
      EXPECT_EQ(d.verdict.reason, "four rows, please");
    }
  }
}

void expect_error(const std::string& command, const std::string& part) {
  const Operator op = operator_of_command("broken", command, {one_operand({2})});
  try {
    discover(op, quick());
    FAIL() << command;
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST(Command, OneThatEndsOrTalksNonsense) {
  expect_error("exit 3", "ended with exit status 3");
  expect_error("no_such_program_at_all 2>/dev/null", "ended with exit status 127");
  expect_error("kill -9 $$", "ended with signal 9");
  expect_error("sed -u 's/.*/hello/'", "answered 'hello'");
  expect_error(R"(sed -u 's/.*/{"results": [{"dtype": "f64", "shape": [2], "data": "00"}]}/')",
               "2 digits for 16 bytes");
}

constexpr const char* kSoftmax = R"mlir(
func.func private @wide(%m: tensor<4xf64>) -> tensor<4x6xf64> {
  %0 = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<4xf64>) -> tensor<4x6xf64>
  return %0 : tensor<4x6xf64>
}
func.func @main(%x: tensor<4x6xf64>) -> tensor<4x6xf64> {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %e = stablehlo.exponential %x : tensor<4x6xf64>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf64>, tensor<f64>) -> tensor<4xf64>
  %sums = func.call @wide(%sum) : (tensor<4xf64>) -> tensor<4x6xf64>
  %result = stablehlo.divide %e, %sums : tensor<4x6xf64>
  return %result : tensor<4x6xf64>
})mlir";

TEST(Module, ASoftmaxOfSeveralOps) {
  const Operator op = operator_of_module("rows", parse_module(kSoftmax));
  const Discovery found = discover(op, quick());
  EXPECT_EQ(rules_of(found), (std::set<std::string>{"R -> R", "S(0) -> S(0)"}));
  bool refuted = false;
  for (const Decision& d : found.samples[0].decisions)
    if (to_string(d.combination) == "S(1) -> S(1)")
      refuted = d.verdict.kind == VerdictKind::Refuted;
  EXPECT_TRUE(refuted);
}

// Offsets, bounds and constants are those of the device's part.
TEST(Module, PositionsAndSlices) {
  const Operator op = operator_of_module("positions", parse_module(R"mlir(
func.func @main(%x: tensor<5x3xf64>) -> tensor<5x2xf64> {
  %i = stablehlo.iota dim = 0 : tensor<5x2xf64>
  %s = stablehlo.slice %x [0:5, 1:3] : (tensor<5x3xf64>) -> tensor<5x2xf64>
  %0 = stablehlo.add %s, %i : tensor<5x2xf64>
  return %0 : tensor<5x2xf64>
})mlir"));
  const std::set<std::string> rules = rules_of(discover(op, quick()));
  EXPECT_TRUE(rules.contains("S(0) -> S(0)"));
  EXPECT_FALSE(rules.contains("S(1) -> S(1)"));
  EXPECT_TRUE(rules.contains("P(avg) -> P(avg)"));
  EXPECT_FALSE(rules.contains("P(sum) -> P(sum)"));
}

TEST(Module, NeedsAMain) {
  EXPECT_THROW(operator_of_module("empty", parse_module("module {}")), UserError);
}

// Every smallest witness of some operators refutes again when it is read back from its text.
TEST(Replay, WitnessesAreReproductions) {
  for (const char* name : {"relu", "cross", "argmax", "max_with_index", "mul_scalar", "cast"}) {
    const Operator& op = *find_operator(name);
    const Discovery found = discover(op, {});
    int replayed = 0;
    for (const RefutedRule& rule : found.refuted) {
      if (!rule.witness) continue;
      const std::string text = to_string(name, *rule.witness);
      EXPECT_LE(std::count(text.begin(), text.end(), '\n') + 1, 5) << text;
      const WitnessText read = parse_witness(text);
      EXPECT_EQ(read.op, name);
      EXPECT_EQ(to_string(read.op,
                          [&] {
                            Witness same = read.witness;
                            same.element = rule.witness->element;
                            same.expected = rule.witness->expected;
                            same.actual = rule.witness->actual;
                            return same;
                          }()),
                text);
      EXPECT_THAT(replay(op, read.witness), HasSubstr("refuted: element")) << text;
      ++replayed;
    }
    EXPECT_GT(replayed, 5) << name;
  }
}

TEST(Replay, SaysWhatHolds) {
  const WitnessText holds = parse_witness(
      "relu(2 f64)  P(max) -> P(max)  on 2 devices\n"
      "  operand 0 P(max) = [1, 2] as [1, -3] [-1, 2]\n");
  EXPECT_EQ(replay(*find_operator("relu"), holds.witness),
            "relu(2 f64)  P(max) -> P(max)  on 2 devices\n"
            "  the true result: [1, 2]\n"
            "  device 0: [1, 0]\n"
            "  device 1: [0, 2]\n"
            "  holds here\n");
}

TEST(Replay, ErrorsNameTheLine) {
  auto message = [](const std::string& text) { return error_of([&] { parse_witness(text); }); };
  EXPECT_THAT(message("hello"), HasSubstr("line 1: 'hello' is no line such as"));
  EXPECT_THAT(message(""), HasSubstr("no witness"));
  const std::string head = "relu(2 f64)  P(sum) -> P(sum)  on 2 devices\n";
  EXPECT_THAT(message(head), HasSubstr("0 lines given"));
  EXPECT_THAT(message(head + "operand 0 P(sum) = [1]"), HasSubstr("line 2: 1 numbers"));
  EXPECT_THAT(message(head + "operand 0 P(sum) = [1, x]"), HasSubstr("'x' is not a number"));
  EXPECT_THAT(message(head + "operand 0 P(sum) = [1, 2] as [1, 2]"), HasSubstr("1 parts for 2"));
}

}  // namespace
}  // namespace cleave
