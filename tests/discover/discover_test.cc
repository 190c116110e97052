#include "cleave/discover/discover.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/discover/conditions.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/library.h"
#include "cleave/discover/registry_operator.h"
#include "cleave/discover/synthesize.h"

namespace cleave {
namespace {

Verdict verdict_of(const std::vector<Decision>& decisions, const std::string& text,
                   size_t result = 0) {
  for (const Decision& d : decisions)
    if (d.combination.result == result && to_string(d.combination) == text) return d.verdict;
  throw std::runtime_error("no combination " + text);
}

std::vector<Decision> decide_first(const std::string& name, size_t sample = 0) {
  const Operator& op = *find_operator(name);
  return decide(op, op.samples[sample], {});
}

TEST(Decide, RefutesWhatOthersGotWrong) {
  EXPECT_EQ(verdict_of(decide_first("argmax"), "S(0) -> P(max)").kind, VerdictKind::Refuted);
  EXPECT_EQ(verdict_of(decide_first("max_with_index"), "S(0) -> P(max)", 1).kind,
            VerdictKind::Refuted);
  EXPECT_EQ(verdict_of(decide_first("add_scalar"), "P(sum) -> P(sum)").kind, VerdictKind::Refuted);
  EXPECT_EQ(verdict_of(decide_first("norm"), "P(sum) -> P(sum)").kind, VerdictKind::Refuted);
  for (const char* name : {"abs", "relu", "square"})
    EXPECT_EQ(verdict_of(decide_first(name), "P(sum) -> P(sum)").kind, VerdictKind::Refuted)
        << name;
  for (const char* name : {"abs", "square"})
    for (const char* rule : {"P(min) -> P(min)", "P(max) -> P(min)"})
      EXPECT_EQ(verdict_of(decide_first(name), rule).kind, VerdictKind::Refuted)
          << name << " " << rule;
  EXPECT_EQ(verdict_of(decide_first("relu"), "P(max) -> P(sum)").kind, VerdictKind::Refuted);
  EXPECT_EQ(verdict_of(decide_first("softmax"), "S(0) -> S(0)").kind, VerdictKind::Refuted);
  EXPECT_EQ(verdict_of(decide_first("cumsum"), "S(0) -> S(0)").kind, VerdictKind::Refuted);
  EXPECT_EQ(verdict_of(decide_first("view"), "S(1) -> S(0)").kind, VerdictKind::Refuted);
  EXPECT_FALSE(verdict_of(decide_first("view"), "S(1) -> S(1)").valid());
}

TEST(Decide, FindsWhatOthersMissed) {
  const auto matmul = decide_first("matmul");
  for (const char* rule : {"P(sum), R -> P(sum)", "R, P(sum) -> P(sum)", "S(0), R -> S(0)",
                           "S(1), S(0) -> P(sum)", "R, S(1) -> S(1)"})
    EXPECT_TRUE(verdict_of(matmul, rule).valid()) << rule;
  EXPECT_TRUE(verdict_of(decide_first("bucketize"), "R, S(0) -> P(sum)").valid());
  EXPECT_TRUE(verdict_of(decide_first("cast"), "P(sum) -> P(sum)").valid());  // f32 to f64
  for (const char* name : {"exp", "sigmoid", "tanh", "relu", "floor", "ceil", "clamp"})
    EXPECT_TRUE(verdict_of(decide_first(name), "P(max) -> P(max)").valid()) << name;
  EXPECT_TRUE(verdict_of(decide_first("where"), "R, P(sum), P(sum) -> P(sum)").valid());
  // An embedding with its table cut by rows: a device that knows its part of the table has zeros
  // for rows that are elsewhere.
  const Operator gather = *find_registry_operator("stablehlo.gather");
  EXPECT_TRUE(verdict_of(decide(gather, gather.samples[0], {}), "S(0), R -> P(sum)").valid());
}

TEST(Decide, TellsRejectionFromAWrongResult) {
  const Verdict verdict = verdict_of(decide_first("matmul"), "S(1), R -> S(1)");
  EXPECT_EQ(verdict.kind, VerdictKind::Rejected);
  EXPECT_NE(verdict.reason.find("contracting dimensions"), std::string::npos) << verdict.reason;
}

TEST(Decide, AResultThatIsAlwaysZeroIsUntestable) {
  Operator op;
  op.name = "zero";
  op.run = [](const AttrMap&, std::span<const Array> x) {
    return std::vector{Array::zeros(DType::F64, x[0].shape())};
  };
  const std::vector<Decision> decisions = decide(op, {{{DType::F64, {5, 3}}}, {}}, {});
  EXPECT_EQ(verdict_of(decisions, "P(sum) -> P(sum)").kind, VerdictKind::Untestable);
}

TEST(Decide, IsTheSameForOneThreadAndTwo) {
  const Operator& op = *find_operator("cross");
  DiscoverOptions one, two;
  one.threads = 1;
  two.threads = 2;
  const auto a = decide(op, op.samples[0], one), b = decide(op, op.samples[0], two);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].verdict.kind, b[i].verdict.kind);
    EXPECT_EQ(a[i].verdict.tests, b[i].verdict.tests);
  }
}

TEST(Witness, IsSmall) {
  const Operator& op = *find_operator("relu");
  const auto decisions = decide(op, op.samples[0], {});
  const Witness witness = shrink(op, *verdict_of(decisions, "P(sum) -> P(sum)").witness);
  EXPECT_EQ(witness.w, 2);
  EXPECT_EQ(num_elements(witness.sample.operands[0].shape), 1);
  const std::string text = to_string("relu", witness);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n') + 1, 5) << text;
  EXPECT_NE(witness.expected, witness.actual);
}

SweepPoint point(int64_t dim, int64_t d, bool valid) { return {{{"dim", dim}}, d, 4, 3, valid}; }

TEST(Conditions, FindsTheSmallest) {
  std::vector<SweepPoint> points;
  for (int64_t dim = 0; dim < 3; ++dim)
    for (int64_t d = 0; d < 3; ++d) points.push_back(point(dim, d, d != dim));
  EXPECT_EQ(smallest_condition(points, {"dim"}), "d != dim");
  for (SweepPoint& p : points) p.valid = *p.d < std::get<int64_t>(p.attrs.at("dim"));
  EXPECT_EQ(smallest_condition(points, {"dim"}), "d < dim");
  for (SweepPoint& p : points) p.valid = true;
  EXPECT_EQ(smallest_condition(points, {"dim"}), "");
}

TEST(Conditions, CombinesTermsWhereOneIsNotEnough) {
  std::vector<SweepPoint> points;
  for (int64_t dim = 0; dim < 3; ++dim)
    for (int64_t d = 0; d < 3; ++d)
      for (bool keepdim : {false, true}) {
        SweepPoint p = point(dim, d, d > dim && !keepdim);
        p.attrs["keepdim"] = keepdim;
        points.push_back(p);
      }
  EXPECT_EQ(smallest_condition(points, {"dim"}), "d > dim and not keepdim");
}

// The values of a sweep are not all values: a condition on their sign holds for the others too.
TEST(Conditions, OfARealNumberTheSign) {
  std::vector<SweepPoint> points;
  for (double scalar : {2.5, -1.0, 0.5})
    points.push_back({{{"scalar", scalar}}, {}, 0, 0, scalar > 0});
  EXPECT_EQ(smallest_condition(points, {}), "scalar > 0");
  for (SweepPoint& p : points) p.valid = std::get<double>(p.attrs.at("scalar")) == 0.5;
  EXPECT_EQ(smallest_condition(points, {}), "scalar == 0.5");
}

SampleDecisions decisions_of(const std::string& name) {
  const Operator& op = *find_operator(name);
  DiscoverOptions options;
  options.shrink_witnesses = false;
  return discover(op, options).samples.front();
}

TEST(Synthesize, MatmulFromItsPlacements) {
  const SynthesizedRule made = synthesize(decisions_of("matmul"));
  EXPECT_EQ(made.rule.factors.size(), 3u) << to_string(made.rule);
  const RuleDiff diff = diff_rule(made.rule, made.partial, decisions_of("matmul"), {2, 3, 4});
  EXPECT_TRUE(diff.incorrect.empty());
  EXPECT_TRUE(diff.missing.empty());
  EXPECT_TRUE(made.not_expressible.empty());
}

TEST(Synthesize, FindsWhatAWrongRuleClaims) {
  SynthesizedRule wrong = synthesize(decisions_of("relu"));
  wrong.partial.push_back({ReduceOp::Sum, {true}, ReduceOp::Sum});
  const RuleDiff diff = diff_rule(wrong.rule, wrong.partial, decisions_of("relu"), {2, 3, 4});
  ASSERT_EQ(diff.incorrect.size(), 1u);
  EXPECT_EQ(to_string(diff.incorrect[0].combination), "P(sum) -> P(sum)");
}

// The indices of a maximum over a sharded dimension are not the maximum of the devices' indices: no
// factor says so.
TEST(Synthesize, AFactorSpeaksOfAllResults) {
  const SampleDecisions sample = decisions_of("max_with_index");
  const SynthesizedRule made = synthesize(sample);
  EXPECT_EQ(to_short_string(made.rule), "k i j -> i j, i j {k: need_replication}");
  EXPECT_TRUE(diff_rule(made.rule, made.partial, sample, {2, 3, 4}).incorrect.empty());
  EXPECT_EQ(std::count(made.not_expressible.begin(), made.not_expressible.end(),
                       "S(0) -> P(max) (result 0): of one result alone"),
            1);
}

TEST(Emit, CrossForDTensor) {
  const std::string code = emit_dtensor(discover(*find_operator("cross"), {}));
  EXPECT_NE(code.find("RuntimeSchemaInfo(static_argnum=2, static_kwargkey=[\"dim\"])"),
            std::string::npos)
      << code;
  EXPECT_NE(code.find("if d != dim:"), std::string::npos) << code;
  EXPECT_NE(code.find("rows.append([_ShardingPlaceholder(d), _ShardingPlaceholder(d), "
                      "_ShardingPlaceholder(d)])"),
            std::string::npos)
      << code;
  EXPECT_EQ(code.find("[Replicate(), Replicate(), Replicate()]"), std::string::npos) << code;
}

// The worked example: what holds, what follows from it, and that everything else is refuted with a
// witness or rejected by the operator.
TEST(Discover, Cross) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  const Discovery cross = discover(*find_operator("cross"), options);
  std::set<std::string> rules, implied;
  for (const DiscoveredRule& rule : cross.rules)
    (rule.implied ? implied : rules).insert(to_string(rule));
  EXPECT_EQ(rules, (std::set<std::string>{"R, R -> R", "P(sum), R -> P(sum)", "R, P(sum) -> P(sum)",
                                          "P(avg), R -> P(avg)", "R, P(avg) -> P(avg)",
                                          "S(d), S(d) -> S(d) WHEN d != dim"}));
  EXPECT_EQ(implied, (std::set<std::string>{"R, R -> P(avg)", "R, R -> P(max)", "R, R -> P(min)"}));
  EXPECT_EQ(cross.attributes, std::vector<std::string>{"dim"});
  EXPECT_TRUE(cross.untestable.empty());
  for (const SampleDecisions& sample : cross.samples)
    for (const Decision& d : sample.decisions)
      EXPECT_TRUE(d.verdict.valid() || d.verdict.witness || !d.verdict.reason.empty())
          << to_string(d.combination);
}

TEST(Discover, TheReshapeRules) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  std::set<std::string> rules;
  for (const DiscoveredRule& rule : discover(*find_operator("view"), options).rules)
    rules.insert(to_string(rule));
  for (const char* rule :
       {"S(0) -> S(0) WHEN called as (12x8 f64; shape=[16, 6]) on 2 or 4 devices",
        "S(0) -> S(0) WHEN called as (12x8 f64; shape=[3, 4, 8]) on 3 devices",
        "S(1) -> S(2) WHEN called as (12x8 f64; shape=[3, 4, 8])",
        "S(0) -> S(0) WHEN called as (6x4x5 f64; shape=[24, 5]) on 2 or 3 devices",
        "S(2) -> S(1) WHEN called as (6x4x5 f64; shape=[24, 5])",
        "S(0) -> S(0) WHEN called as (12x8 f64; shape=[12, 1, 8])"})
    EXPECT_TRUE(rules.contains(rule)) << rule;
}

// The identity but for one number that no usual generator makes: a code that means nothing here.
TEST(Discover, GeneratorsOfTheCaller) {
  Operator op;
  op.name = "without_code";
  op.samples = {{{{DType::F64, {5}}}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    std::vector<double> numbers = to_doubles(x[0]);
    for (double& number : numbers)
      if (number == 12345.678) number = 0;
    return std::vector{from_doubles(DType::F64, x[0].shape(), numbers)};
  };
  DiscoverOptions options;
  EXPECT_TRUE(verdict_of(decide(op, op.samples[0], options), "P(sum) -> P(sum)").valid());
  options.generators.push_back(generator_of_values("codes", {12345.678, 1, 2}));
  EXPECT_EQ(verdict_of(decide(op, op.samples[0], options), "P(sum) -> P(sum)").kind,
            VerdictKind::Refuted);
}

TEST(Discover, SaysHowFarItIs) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  double last = 0;
  options.progress = [&](const std::string& name, double share) {
    EXPECT_EQ(name, "matmul");
    EXPECT_GE(share, last);
    last = share;
  };
  discover(*find_operator("matmul"), options);
  EXPECT_GT(last, 0.5);
  EXPECT_LE(last, 1.0);
}

TEST(Discover, SameSeedSameReport) {
  DiscoverOptions one, two;
  one.threads = 1;
  two.threads = 2;
  Discovery a = discover(*find_operator("where"), one), b = discover(*find_operator("where"), two);
  a.seconds = b.seconds = 0;
  EXPECT_EQ(report_yaml(a), report_yaml(b));
}

TEST(Discover, NeedsSamples) {
  Operator op;
  op.name = "nothing";
  EXPECT_THROW(discover(op, {}), UserError);
}

}  // namespace
}  // namespace cleave
