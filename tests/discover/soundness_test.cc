// False rules that look true to most inputs: what is wrong only for factors, uneven shards, NaN in
// one shard, huge numbers, or below rounding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "cleave/core/error.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/replay.h"
#include "cleave/discover/split_integers.h"
#include "cleave/kernels/combine.h"
#include "cleave/kernels/dispatch.h"
#include "tests/support/error_of.h"
#include "tests/support/rules_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;
using Numbers = std::vector<double>;

TensorDesc f64(Shape shape) { return {DType::F64, std::move(shape)}; }

// An operator on doubles, row-major, that keeps the shape.
template <typename F>
Operator keeps_shape(std::string name, Shape shape, F f) {
  Operator op;
  op.name = std::move(name);
  op.samples = {{{f64(std::move(shape))}, {}}};
  op.run = [f](const AttrMap&, std::span<const Array> x) {
    Numbers numbers = to_doubles(x[0]);
    f(numbers);
    return std::vector{from_doubles(x[0].dtype(), x[0].shape(), numbers)};
  };
  return op;
}

DiscoverOptions quick() {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  return options;
}

std::set<std::string> rules_of(const Operator& op, DiscoverOptions options = quick()) {
  return rules_of(discover(op, options));
}

VerdictKind verdict_of(const Operator& op, const std::string& text) {
  for (const Decision& d : decide(op, op.samples[0], {}))
    if (to_string(d.combination) == text) return d.verdict.kind;
  throw std::runtime_error("no combination " + text);
}

Operator gcd_of(DType dtype) {
  Operator op;
  op.name = "gcd";
  op.samples = {{{{dtype, {5, 3}}, {dtype, {5, 3}}}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    if (x[0].shape() != x[1].shape()) throw_user("gcd: shapes differ");
    Array result(x[0].dtype(), x[0].shape());
    visit_integer(x[0].dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const Array a = x[0].contiguous(), b = x[1].contiguous();
      auto size = [](T v) {
        return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
      };
      for (int64_t i = 0; i < result.num_elements(); ++i)
        result.data<T>()[i] = static_cast<T>(std::gcd(size(a.data<T>()[i]), size(b.data<T>()[i])));
    });
    return std::vector{result};
  };
  return op;
}

TEST(Integers, AGcdOfFactorsIsNoProductOfGcds) {
  for (DType dtype : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16,
                      DType::U32, DType::U64}) {
    EXPECT_EQ(verdict_of(gcd_of(dtype), "R, P(prod) -> P(prod)"), VerdictKind::Refuted)
        << name(dtype);
    EXPECT_EQ(verdict_of(gcd_of(dtype), "S(0), S(0) -> S(0)"), VerdictKind::Tested) << name(dtype);
  }
}

// Whatever the parts are, together they are the number; and they are not all ones and zeros.
TEST(Integers, PartsCombineToTheNumber) {
  for (DType dtype : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16,
                      DType::U32, DType::U64}) {
    NumberStream random(7);
    std::vector<TensorDesc> descs = {{dtype, {40}}};
    std::vector<InputGenerator> generators = default_generators();
    for (const InputGenerator& generator : generators) {
      if (generator.floats_only) continue;
      const Array value = make_input(generator, descs[0], random, 0);
      for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min,
                          ReduceOp::And, ReduceOp::Or})
        for (int how = 0; how < kNumDecompositions; ++how)
          for (int w : {2, 3, 5}) {
            const auto parts =
                split_integers(value, op, w, static_cast<Decomposition>(how), random);
            std::vector<const std::byte*> raw;
            for (const Array& part : parts) raw.push_back(part.raw());
            Array total(dtype, {40});
            combine_parts(op, dtype, raw, total.raw(), 0, 40);
            ASSERT_TRUE(std::equal(total.raw(), total.raw() + total.num_bytes(), value.raw()))
                << name(dtype) << " " << name(op) << " " << how << " " << generator.name;
          }
    }
  }
  NumberStream random(1);
  const Array twelve = from_doubles(DType::I32, {50}, Numbers(50, 12.0));
  std::set<double> factors;
  for (double x :
       to_doubles(split_integers(twelve, ReduceOp::Prod, 2, Decomposition::Gaps, random)[0]))
    factors.insert(std::fabs(x));
  EXPECT_EQ(factors, (std::set<double>{1, 2, 3, 4, 6, 12}));
}

// Doubles cannot tell 2^53 from 2^53 + 1.
TEST(Integers, OfSixtyFourBitsAreToldApart) {
  const int64_t big = int64_t{1} << 53;
  Array a(DType::I64, {1}), b(DType::I64, {1});
  a.data<int64_t>()[0] = big;
  b.data<int64_t>()[0] = big + 1;
  EXPECT_EQ(represents({a, b}, a, Placement::replicate(), {}).match, Match::No);
  EXPECT_EQ(represents({a, a}, a, Placement::replicate(), {}).match, Match::Yes);
}

// Witnesses with the ends of a type are reproductions too, digit by digit.
TEST(Integers, WitnessesKeepEveryDigit) {
  const std::string text =
      "gcd(2 i64, 2 i64)  R, P(sum) -> P(sum)  on 2 devices\n"
      "  operand 0 R = [-9223372036854775808, 9007199254740993]\n"
      "  operand 1 P(sum) = [9223372036854775807, 3] as [9223372036854775806, 1] [1, 2]\n";
  const WitnessText read = parse_witness(text);
  EXPECT_EQ(read.witness.operands[0].data<int64_t>()[1], 9007199254740993);
  EXPECT_THAT(to_string("gcd", read.witness), testing::StartsWith(text));
  const Operator op = gcd_of(DType::I64);
  DiscoverOptions options;
  for (const RefutedRule& rule : discover(op, options).refuted) {
    if (!rule.witness) continue;
    const WitnessText again = parse_witness(to_string("gcd", *rule.witness));
    EXPECT_THAT(replay(op, again.witness), HasSubstr("refuted: element"))
        << to_string("gcd", *rule.witness);
  }
}

// The mean of all squares of differences, as a loss has it.
Operator mean_square(Shape shape) {
  Operator op;
  op.name = "mean_square";
  op.samples = {{{f64(shape), f64(shape)}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    const Numbers a = to_doubles(x[0]), b = to_doubles(x[1]);
    if (x[0].shape() != x[1].shape()) throw_user("mean_square: shapes differ");
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::vector{from_doubles(DType::F64, {}, Numbers{sum / static_cast<double>(a.size())})};
  };
  return op;
}

TEST(Uneven, AMeanOfMeansNeedsEqualShards) {
  for (const Shape& shape : {Shape{12, 12}, Shape{4, 6}, Shape{8, 3}}) {
    const std::set<std::string> rules = rules_of(mean_square(shape));
    EXPECT_TRUE(rules.contains("S(d), S(d) -> P(avg) WHEN size(d) % w == 0"))
        << testing::PrintToString(rules);
    EXPECT_EQ(rules.size(), 2u) << testing::PrintToString(rules);
  }
  // Also where every number of devices that was asked for divides the dimension.
  DiscoverOptions two = quick();
  two.worlds = {2};
  EXPECT_TRUE(
      rules_of(mean_square({4, 6}), two).contains("S(d), S(d) -> P(avg) WHEN size(d) % w == 0"));
}

// Maxima of windows of two: shards of an odd size have no such parts.
TEST(Uneven, AWorldThatIsRejectedLeavesTheOthers) {
  Operator op;
  op.name = "pool";
  op.samples = {{{f64({3, 8})}, {}}, {{f64({2, 12})}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    const Numbers in = to_doubles(x[0]);
    const int64_t rows = x[0].shape()[0], n = x[0].shape()[1];
    if (n < 2) throw_user("pool: a row is shorter than the window");
    Numbers out;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i + 1 < n; i += 2)
        out.push_back(
            std::max(in[static_cast<size_t>(r * n + i)], in[static_cast<size_t>(r * n + i + 1)]));
    return std::vector{from_doubles(DType::F64, {rows, n / 2}, out)};
  };
  const std::set<std::string> rules = rules_of(op);
  EXPECT_TRUE(rules.contains("S(0) -> S(0)")) << testing::PrintToString(rules);
  EXPECT_TRUE(rules.contains("S(1) -> S(1) WHEN size(1) % (2 * w) == 0"))
      << testing::PrintToString(rules);
}

// Rows that meet only when something is unusual.
TEST(OneShard, RowsThatMeetThroughNaNAlone) {
  auto any_nan = [](const Numbers& x) {
    return std::any_of(x.begin(), x.end(), [](double v) { return std::isnan(v); });
  };
  const Operator zeros = keeps_shape("zeros_if_nan", {6, 3}, [=](Numbers& x) {
    if (any_nan(x)) std::fill(x.begin(), x.end(), 0.0);
  });
  const Operator all_nan = keeps_shape("nan_if_nan", {6, 3}, [=](Numbers& x) {
    if (any_nan(x)) std::fill(x.begin(), x.end(), std::nan(""));
  });
  const Operator infinite = keeps_shape("nan_if_inf", {6, 3}, [](Numbers& x) {
    if (std::any_of(x.begin(), x.end(), [](double v) { return std::isinf(v); }))
      std::fill(x.begin(), x.end(), std::nan(""));
  });
  for (const Operator& op : {zeros, all_nan, infinite})
    EXPECT_EQ(verdict_of(op, "S(0) -> S(0)"), VerdictKind::Refuted) << op.name;
}

TEST(OneShard, RowsThatMeetAboveAThreshold) {
  for (double threshold : {1e6, 1e7, 1e11}) {
    // Half the size if any number is large: a huge one elsewhere excuses no error.
    const Operator halves = keeps_shape("halves", {6, 3}, [=](Numbers& x) {
      if (std::any_of(x.begin(), x.end(), [&](double v) { return std::fabs(v) > threshold; }))
        for (double& v : x) v /= 2;
    });
    EXPECT_EQ(verdict_of(halves, "S(0) -> S(0)"), VerdictKind::Refuted) << threshold;
  }
  // A row of zeros is left alone, but only if it is the only one.
  const Operator few = keeps_shape("zero_rows", {6, 3}, [](Numbers& x) {
    size_t zero_rows = 0;
    for (size_t r = 0; r + 2 < x.size(); r += 3) zero_rows += !x[r] && !x[r + 1] && !x[r + 2];
    if (zero_rows > 0)
      for (double& v : x) v += 1;
  });
  EXPECT_EQ(verdict_of(few, "S(0) -> S(0)"), VerdictKind::Refuted);
}

// What works row by row stays valid, NaN and all.
TEST(OneShard, RowsThatDoNotMeet) {
  const Operator sums = keeps_shape("row_sums", {6, 3}, [](Numbers& x) {
    for (size_t r = 0; r + 2 < x.size(); r += 3) x[r + 2] += x[r] + x[r + 1];
  });
  EXPECT_EQ(verdict_of(sums, "S(0) -> S(0)"), VerdictKind::Tested);
}

TEST(Rounding, WhatIsBelowItIsComparedExactly) {
  Operator op;
  op.name = "nextafter";
  op.samples = {{{f64({5, 3}), f64({5, 3})}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    if (x[0].shape() != x[1].shape()) throw_user("shapes differ");
    Numbers a = to_doubles(x[0]);
    const Numbers b = to_doubles(x[1]);
    for (size_t i = 0; i < a.size(); ++i) a[i] = std::nextafter(a[i], 2 * b[i] + 1);
    return std::vector{from_doubles(DType::F64, x[0].shape(), a)};
  };
  EXPECT_TRUE(is_below_rounding(op));
  const std::set<std::string> rules = rules_of(op);
  for (const char* rule : {"P(sum), R -> P(sum)", "P(avg), R -> P(avg)", "P(sum), P(sum) -> P(sum)",
                           "P(sum), P(avg) -> P(sum)", "P(avg), P(avg) -> P(avg)"})
    EXPECT_FALSE(rules.contains(rule)) << rule;
  EXPECT_TRUE(rules.contains("S(d), S(d) -> S(d)"));
  EXPECT_FALSE(is_below_rounding(keeps_shape("identity", {4}, [](Numbers&) {})));
}

TEST(Deterministic, TwoEqualCallsThatDifferEndTheRun) {
  auto calls = std::make_shared<int>(0);
  const Operator op = keeps_shape("noise", {4, 3}, [calls](Numbers& x) {
    for (double& v : x) v += 0.01 * ++*calls;
  });
  EXPECT_THAT(
      error_of([&] { discover(op, quick()); }),
      HasSubstr("discover noise: not deterministic: of two equal calls (4x3 f64) element 0"));
}

TEST(Shapes, ThatDependOnNumbersAreNoPlacements) {
  Operator op;
  op.name = "nonzero";
  op.samples = {{{f64({7})}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    Numbers numbers = to_doubles(x[0]);
    std::erase(numbers, 0.0);
    return std::vector{from_doubles(DType::F64, {static_cast<int64_t>(numbers.size())}, numbers)};
  };
  EXPECT_THAT(error_of([&] { discover(op, quick()); }),
              HasSubstr("depends on the operands' numbers"));
}

// An operator that refuses NaN as a whole is judged by the numbers that it takes.
TEST(Shapes, NumbersThatTheOperatorRefusesAreLeftOut) {
  const Operator op = keeps_shape("picky", {6, 3}, [](Numbers& x) {
    for (double& v : x) {
      if (!std::isfinite(v)) throw_user("picky: not finite");
      v *= 3;
    }
  });
  EXPECT_TRUE(rules_of(op).contains("S(d) -> S(d)"));
  EXPECT_TRUE(rules_of(op).contains("P(sum) -> P(sum)"));
}

}  // namespace
}  // namespace cleave
